"""The training engine: stacks of heads, their steps, epoch selection, checkpoints and the finished head."""
