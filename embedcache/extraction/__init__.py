"""Creation of a cache from a listing and a backbone: decoding, embedding, resuming, updating and distribution."""
