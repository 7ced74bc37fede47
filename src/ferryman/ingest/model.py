"""What ingestion is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ferryman.ingest.states import BatchState, RunState, TaskState
from ferryman.ingest.window import START


@dataclass(frozen=True, slots=True)
class Cut:
    """One slice to be: its bounds, as people and sources read them and as numbers, and how much is expected in it."""

    dimension: str  # time, id or landmark
    first: str | int
    last: str | int
    lower: int | None = None
    upper: int | None = None
    estimate: int | None = None
    start: str = START

    def spec(self) -> dict[str, Any]:
        """Return what makes it the slice it is."""
        told: dict[str, Any] = {"dimension": self.dimension, "from": self.first, "to": self.last}
        return told if self.start == START else told | {"start": self.start}


@dataclass(frozen=True, slots=True)
class Budget:
    """What a task may use. None is without a limit; time has one always, because every live row has an end."""

    requests: int | None
    items: int | None
    seconds: int

    def as_json(self) -> dict[str, Any]:
        """Return what is stored with a plan."""
        return {"requests": self.requests, "items": self.items, "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class Usage:
    """What of a budget is gone."""

    requests: int = 0
    items: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where the task, the run and the open batches of a claim go."""

    task: TaskState
    run: RunState
    batch: BatchState = BatchState.FAILED
    code: str | None = None
    reason: str | None = None
    delay: timedelta = timedelta(0)
    used: int = 0
    forgiven: int = 0


@dataclass(frozen=True, slots=True)
class Claimed:
    """A task in an executor's hands, with the run that was planned for it."""

    id: UUID
    epoch: int
    attempt: int
    run_id: UUID
    plan_id: UUID
    tenant: str
    source: str
    endpoint: str
    operation: str
    cut: Cut
    covered: int | None
    depth: int
    budget: Budget
    used: int
    max_attempts: int
    params: Mapping[str, Any]

    @property
    def slice_id(self) -> UUID:
        """A slice and its task share one id: there is one task for each."""
        return self.id


@dataclass(frozen=True, slots=True)
class Begun:
    """Where a run begins: where the last good batch led, and what is gone of the budget."""

    position: str | None  # None: the last page is there already
    requests: int
    items: int
    seconds: float
    pages: int
    usual: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one claim."""

    id: UUID
    epoch: int
    owner: UUID
    verdict: Verdict
    covered: int | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    # Of the batch that is open, if whoever ends the claim knows.
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class Trigger:
    """Who asked for a plan: together the name of one firing."""

    kind: str  # SCHEDULE, MANUAL or API
    job: str
    fire_time: datetime | None = None  # None: now


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer to a request for a plan. No id: the window is empty, and no plan was made."""

    id: UUID | None
    made: bool
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    slices: int = 0
    tasks: int = 0
    waiting: int = 0
    failed: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the answer for a program."""
        return {
            "plan": None if self.id is None else str(self.id),
            "made": self.made,
            "status": self.status,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "slices": self.slices,
            "tasks": self.tasks,
            "waiting": self.waiting,
            "failed": self.failed,
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a plan is (I16)."""

    id: UUID
    source: str
    endpoint: str
    operation: str
    strategy: str
    status: str
    since: datetime | None
    until: datetime | None
    share: float  # of the window, 0 to 1
    slices: int
    slices_done: int
    tasks: Mapping[str, int]
    undecided: int  # of those that ended with something left: the planner has not said yet what becomes of it
    requests: int
    items: int
    errors: int
    quarantined: int
    rate: float | None  # records a second, of the last minutes
    ends_in: float | None  # seconds until the end at this rate
    gate: float | None  # requests a second that the gate allows
    shut_until: datetime | None  # the circuit breaker
    created_at: datetime

    @property
    def over(self) -> bool:
        """Whether nothing of it is live any more."""
        live = any(self.tasks.get(state) for state in ("QUEUED", "DISPATCHED", "EXECUTING", "PENDING"))
        return not live and not self.undecided

    def as_json(self) -> dict[str, Any]:
        """Return it for a program."""
        told = {name: getattr(self, name) for name in self.__slots__}
        told |= {name: None if told[name] is None else told[name].isoformat() for name in _TIMES}
        return told | {"id": str(self.id), "tasks": dict(self.tasks), "over": self.over}


_TIMES = ("since", "until", "shut_until", "created_at")


@dataclass(frozen=True, slots=True)
class Moved:
    """One event of a cursor."""

    seq: int
    at: datetime
    kind: str
    prev: int | None
    next: int
    run_id: UUID | None
    batch_id: UUID | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the events of a cursor come to, and whether that is where it stands."""

    id: UUID
    name: str
    kind: str
    position: int
    replayed: int | None
    events: Sequence[Moved]

    @property
    def agrees(self) -> bool:
        """Whether the events give the cursor's value."""
        return self.replayed == self.position


@dataclass(frozen=True, slots=True)
class Records:
    """A page that the statement that ends its batch writes: by a statement of one parameter, which counts the rows it wrote.

    If `look`, of the same parameter, counts none of its records in the table, `fresh` writes them instead. It is refused if
    `table` has not the `shape` any more for which the statements were made.
    """

    sql: str
    page: str
    look: str | None = None
    fresh: str | None = None
    table: str | None = None
    shape: str | None = None
