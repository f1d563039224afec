"""Corrections of labels: a file beside a cache, which is never changed by them."""
