"""The workbench page: layout, handlers and launch; the only package that imports gradio."""
