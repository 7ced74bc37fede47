"""Ready-made sinks."""
