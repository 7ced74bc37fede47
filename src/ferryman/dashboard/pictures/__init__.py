"""Charts and timelines: pure functions that return SVG. Colours are classes; the style sheet knows them, light and dark."""
