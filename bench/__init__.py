"""Ferryman beside its peers on one PostgreSQL, measured in one run."""
