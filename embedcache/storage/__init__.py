"""The files of a cache: layout, writing, locking and reading."""
