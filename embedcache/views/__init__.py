"""Views of images: policies that alter a decoded image, and view sets, which store their vectors beside a cache."""
