"""What to do next in the tab Runs: rules, each with the figure behind it and a button or a link."""
