"""One function per statement; imported by this domain alone."""

from ferryman.batches.store import batches, tasks

__all__ = ["batches", "tasks"]
