"""The synchronous door to agents: the same calls as `app.agents`, for plain code."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from ferryman.agents.intake.timeline import Moment
from ferryman.agents.model import (
    AgentRecord,
    Answer,
    BudgetRecord,
    CardRecord,
    EdgeRecord,
    MessageRecord,
    StepRecord,
    TurnRecord,
    WaitRecord,
)
from ferryman.app.agents import Agents
from ferryman.app.turns import TurnHandle

Value = TypeVar("Value")


class Runs(Protocol):
    """Who runs what is async."""

    def __call__(self, work: Coroutine[Any, Any, Value], /) -> Value:
        """Run it to its end."""


class BlockingAgents:
    """Agents and their turns, from plain code."""

    def __init__(self, run: Runs, door: Callable[[], Agents]) -> None:
        """Call the async door on the thread that runs it."""
        self._run = run
        self._door = door

    def ensure(self, agent_id: str, profile: str | Callable[..., Any], /, **options: Any) -> AgentRecord:
        """Return an agent, made first if it is not there."""
        return self._run(self._door().ensure(agent_id, profile, **options))

    def send(self, agent_id: str, instruction: Any, /, **options: Any) -> BlockingTurn:
        """Ask an agent for a turn; the options are those of `app.agents.send`."""
        return BlockingTurn(self._run, self._run(self._door().send(agent_id, instruction, **options)))

    def report(self, tool_call_id: str, **answer: Any) -> Answer:
        """Answer a call that a turn waits for, from outside."""
        return self._run(self._door().report(tool_call_id, **answer))

    def stop(self, turn: UUID, *, reason: str = "stopped") -> Answer:
        """End a turn at once."""
        return self._run(self._door().stop(turn, reason=reason))

    def cancel(self, turn: UUID) -> Answer:
        """Take back a turn that still waits in line."""
        return self._run(self._door().cancel(turn))

    def get(self, agent_id: str) -> AgentRecord:
        """Read an agent and what it is doing."""
        return self._run(self._door().get(agent_id))

    def list(self, **which: Any) -> Sequence[AgentRecord]:
        """Read a page of agents."""
        return self._run(self._door().list(**which))

    def turns(self, agent_id: str, **which: Any) -> Sequence[TurnRecord]:
        """Read a page of an agent's turns."""
        return self._run(self._door().turns(agent_id, **which))

    def turn(self, turn: UUID) -> TurnRecord:
        """Read a turn: how far it is, or how it ended."""
        return self._run(self._door().turn(turn))

    def timeline(self, turn: UUID) -> Sequence[Moment]:
        """Read what a turn did, in order."""
        return self._run(self._door().timeline(turn))

    def steps(self, turn: UUID) -> Sequence[StepRecord]:
        """Read the steps of a turn, in order."""
        return self._run(self._door().steps(turn))

    def inbox(self, agent_id: str, *, limit: int = 50) -> Sequence[MessageRecord]:
        """Read what is in an agent's inbox and not done with, oldest first."""
        return self._run(self._door().inbox(agent_id, limit=limit))

    def waits(self, turn: UUID) -> Sequence[WaitRecord]:
        """Read the calls of a turn with their times and deadlines, in order."""
        return self._run(self._door().waits(turn))

    def edges(self, turn: UUID) -> Sequence[EdgeRecord]:
        """Read who asked for a turn, and whom it asked, in order."""
        return self._run(self._door().edges(turn))

    def budget(self, turn: UUID) -> BudgetRecord | None:
        """Read what the budget of a turn allows and what is gone of it; None without one."""
        return self._run(self._door().budget(turn))

    def card(self, card: UUID) -> CardRecord:
        """Read a card."""
        return self._run(self._door().card(card))

    def cards(self, box: UUID, **which: Any) -> Sequence[CardRecord]:
        """Read the cards of a box, in order."""
        return self._run(self._door().cards(box, **which))

    def wakeup(self, agent_id: str, *, dispatch_next: bool = False) -> Answer:
        """Ring for an agent."""
        return self._run(self._door().wakeup(agent_id, dispatch_next=dispatch_next))


class BlockingTurn:
    """One turn, in plain hands."""

    def __init__(self, run: Runs, handle: TurnHandle) -> None:
        """Wrap the async one."""
        self._run = run
        self._handle = handle

    @property
    def id(self) -> UUID:
        """The turn's key."""
        return self._handle.id

    def record(self) -> TurnRecord:
        """Read the turn as it is now."""
        return self._run(self._handle.record())

    def result(self, *, timeout: float | None = None) -> Any:
        """Wait for the end and return the deliverable; a turn that did not succeed raises its code."""
        return self._run(self._handle.result(timeout=timeout))

    def stop(self, *, reason: str = "stopped") -> Answer:
        """End the turn at once."""
        return self._run(self._handle.stop(reason=reason))

    def timeline(self) -> Sequence[Moment]:
        """Read what the turn did, in order."""
        return self._run(self._handle.timeline())

    def __repr__(self) -> str:
        """Name the turn."""
        return repr(self._handle)
