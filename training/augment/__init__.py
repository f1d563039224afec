"""Random changes of vectors: noise, gains and mixtures."""
