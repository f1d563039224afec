"""Second stages of training, one file per method, which follow the first stage with the body frozen."""
