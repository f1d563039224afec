"""Atomic writing of results: checks of the target, temporary names, synchronisation to disk and renaming."""
