"""Adding photos in the tab Data: where they are, embedding them into a cache, and what could not be read."""
