"""Ready-made sources."""
