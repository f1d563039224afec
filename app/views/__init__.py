"""What the page shows, as text: pure functions from data to escaped HTML and SVG, without gradio."""
