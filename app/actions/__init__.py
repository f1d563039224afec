"""What the commands do; heavy imports live here."""
