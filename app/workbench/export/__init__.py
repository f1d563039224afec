"""The tab Export: a head as files that work elsewhere, with what is known of it."""
