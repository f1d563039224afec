"""Bundles: exported heads as folders with safetensors and a card."""
