"""Reports as HTML, and their charts."""
