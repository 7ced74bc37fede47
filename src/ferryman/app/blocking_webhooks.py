"""The synchronous door to webhooks: the same calls as `app.webhooks`, for plain code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from ferryman.app.blocking_turns import Runs
from ferryman.app.relays import Added, Webhooks
from ferryman.relays.model import Delivery, Webhook


class BlockingWebhooks:
    """Add receivers of events, ask about them, pause and remove them, from plain code."""

    def __init__(self, run: Runs, door: Callable[[], Webhooks]) -> None:
        """Call the async door on the thread that runs it."""
        self._run = run
        self._door = door

    def add(self, url: str, *, kinds: Iterable[str] | str | None = None, name: str | None = None) -> Added:
        """Tell a receiver of what happens from now on."""
        return self._run(self._door().add(url, kinds=kinds, name=name))

    def secret(self, id: str | UUID) -> str:
        """Return the secret of a webhook."""
        return self._run(self._door().secret(id))

    def rotate(self, id: str | UUID) -> Added:
        """Give a webhook a new secret."""
        return self._run(self._door().rotate(id))

    def get(self, id: str | UUID) -> Webhook:
        """Read one webhook, by id or name."""
        return self._run(self._door().get(id))

    def list(self, **which: Any) -> Sequence[Webhook]:
        """Read webhooks, newest first, a page at a time."""
        return self._run(self._door().list(**which))

    def deliveries(self, id: str | UUID, **which: Any) -> Sequence[Delivery]:
        """Read the deliveries of a webhook, newest first, a page at a time."""
        return self._run(self._door().deliveries(id, **which))

    def pause(self, id: str | UUID, *, reason: str | None = None) -> bool:
        """Send nothing to a webhook for now."""
        return self._run(self._door().pause(id, reason=reason))

    def resume(self, id: str | UUID, *, reason: str | None = None) -> bool:
        """Send to a paused webhook again."""
        return self._run(self._door().resume(id, reason=reason))

    def remove(self, id: str | UUID, *, reason: str | None = None) -> bool:
        """End a webhook; what it is owed is dead."""
        return self._run(self._door().remove(id, reason=reason))

    def retry(self, delivery: str | UUID) -> Delivery:
        """Try a dead delivery anew, as a new one."""
        return self._run(self._door().retry(delivery))
