"""Presets and benches: data that the command line and the app read alike."""
