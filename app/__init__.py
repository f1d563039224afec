"""What a person touches: the command line and, later, the workbench page."""
