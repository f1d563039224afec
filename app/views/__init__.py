"""Views of a comparison: pure functions from data to escaped HTML and SVG, without gradio."""
