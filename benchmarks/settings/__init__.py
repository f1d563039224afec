"""Settings: parse YAML, presets and overrides into Specs, and expand a bench into rows."""
