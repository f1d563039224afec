"""Post-hoc layers on the logits: calibration, prior shifts and decisions."""
