"""Validation of vectors, labels, groups and class lists given by callers, shared by all interfaces."""
