"""What callers give: vectors, labels, groups and class lists, read by one set of rules at every entrance."""
