"""Views of images: policies that alter a decoded image, and view sets, which keep their vectors beside a cache."""
