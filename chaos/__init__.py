"""Everything at once, on a real PostgreSQL, while the world breaks by a plan that one seed draws (R3)."""
