"""Tasks: one unit of work, from its creation to its end."""
