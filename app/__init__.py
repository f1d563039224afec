"""The user interfaces: the command line and the workbench page."""
