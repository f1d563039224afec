"""Settings: YAML, presets and overrides to Specs, and the plan of a bench."""
