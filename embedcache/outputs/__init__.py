"""Where results may be written, and how: beside their place, brought to the disk, then renamed; whole or not at all."""
