"""The workbench: pages with a script of their own, which get their data as JSON from the server."""
