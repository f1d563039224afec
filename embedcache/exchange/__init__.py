"""Vectors that come from other programs, or go to them."""
