"""Implementations of the commands, with their slow imports."""
