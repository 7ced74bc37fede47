"""What comes in: batches are forked, in the caller's transaction, and asked about."""

from ferryman.batches.intake import read
from ferryman.batches.intake.fork import Wanted, fork, parts

__all__ = ["Wanted", "fork", "parts", "read"]
