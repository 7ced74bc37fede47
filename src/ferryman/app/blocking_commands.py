"""The synchronous door to commands: the same calls as `app.commands`, for plain code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from ferryman.app.blocking_turns import Runs
from ferryman.app.commands import Commands
from ferryman.commands.intake.read import Story
from ferryman.commands.model import AsyncTaskRecord, CommandRecord, Completion, Message, Sent


class BlockingCommands:
    """Send commands, and ask about them."""

    def __init__(self, run: Runs, door: Callable[[], Commands]) -> None:
        """Call the async door on the thread that runs it."""
        self._run = run
        self._door = door

    def send(self, command_type: str, payload: Any = None, /, **options: Any) -> Sent:
        """Send a command; the options are those of `app.commands.send`, but for the connection."""
        return self._run(self._door().send(command_type, payload, **options))

    def accept(self, asked: Mapping[str, Any]) -> Sent:
        """Send a command from a request in the form of the source."""
        return self._run(self._door().accept(asked))

    def start(self, message: Message, /) -> UUID:
        """Start one async task without a command."""
        return self._run(self._door().start(message))

    def get(self, command_id: str | UUID) -> CommandRecord:
        """Read a command."""
        return self._run(self._door().get(command_id))

    def wait(self, command_id: str | UUID, *, timeout: float | None = None) -> CommandRecord:
        """Wait until a command has ended."""
        return self._run(self._door().wait(command_id, timeout=timeout))

    def story(self, correlation_id: str | UUID) -> Story:
        """Read all that came of a command."""
        return self._run(self._door().story(correlation_id))

    def list(self, **filters: Any) -> Sequence[CommandRecord]:
        """Read a page of commands, newest first."""
        return self._run(self._door().list(**filters))

    def cancel(self, command_id: str | UUID, *, reason: str | None = None) -> bool:
        """Cancel a command that has not ended."""
        return self._run(self._door().cancel(command_id, reason=reason))

    def task(self, async_task_id: str | UUID) -> AsyncTaskRecord:
        """Read an async task."""
        return self._run(self._door().task(async_task_id))

    def complete(self, **given: Any) -> Completion:
        """Take a result from outside; the fields are those of `app.commands.complete`."""
        return self._run(self._door().complete(**given))

    def progress(self, async_task_id: str | UUID, percent: float) -> bool:
        """Take how far an async task is whose work is done outside."""
        return self._run(self._door().progress(async_task_id, percent))

    def cancel_task(self, async_task_id: str | UUID, *, reason: str | None = None) -> Completion:
        """Cancel one async task; its command goes on with the others."""
        return self._run(self._door().cancel_task(async_task_id, reason=reason))

    def statistics(self) -> Sequence[dict[str, Any]]:
        """Read how many async tasks there are of each type and status, and how long they took."""
        return self._run(self._door().statistics())
