"""Verification, diagnosis and repair of a cache."""
