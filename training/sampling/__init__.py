"""Drawing of training rows: batches, class-balanced samplers and oversampling."""
