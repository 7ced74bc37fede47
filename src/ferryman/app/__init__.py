"""The object users hold, and the only place where domains meet."""
