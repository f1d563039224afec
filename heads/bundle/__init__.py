"""Bundles: an exported head as a folder of safetensors and a card."""
