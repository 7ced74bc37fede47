"""Ready-made sources."""

from ferryman.ingest.sources.rest import RestSource

__all__ = ["RestSource"]
