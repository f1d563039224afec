"""Heads map a vector to logits; they import none of the other packages except `embedcache.outputs`."""
