"""Generator of the page that compares presets with five lines of scikit-learn."""
