"""Checks of data and settings before training, with the notes that come with them."""
