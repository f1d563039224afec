"""The files of a cache: how they are laid out, written, locked and read."""
