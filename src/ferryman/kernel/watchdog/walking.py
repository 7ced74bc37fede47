"""How retention walks (T20): so many rows at a look, so often; when it has seen all, it rests."""

from __future__ import annotations

from datetime import timedelta

SPAN = 5000
PACE = timedelta(seconds=5)
REST = timedelta(minutes=1)
