"""From a listing and a backbone to a cache: decoding, embedding, resuming, updating, in one process or many."""
