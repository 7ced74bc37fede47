"""Ingestion: windows of a source become slices, tasks, runs and batches, and move cursors (I1 to I16)."""
