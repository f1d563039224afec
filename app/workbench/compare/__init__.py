"""The tab Compare: two settings on the same images, what differs between them, and on which images."""
