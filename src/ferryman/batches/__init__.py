"""Batches: many agents' turns asked for at once, joined into one result."""
