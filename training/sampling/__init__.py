"""Order in which rows are drawn: batches, class-balanced samplers and oversampling."""
