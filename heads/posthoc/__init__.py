"""What follows the logits: calibration, prior shifts and decisions."""
