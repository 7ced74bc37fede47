"""Charts and timelines: pure functions that return SVG. Colours are classes, which the style sheet fills in for light and dark."""
