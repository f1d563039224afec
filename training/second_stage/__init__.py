"""Second stages of training, one file a method: what follows the first with the body frozen."""
