"""The plan of faults, drawn from one seed: when, what, to whom; and how each life of each process is hampered.

The same seed, length and crew give the same plan. What it meets in the processes is a matter of their timing, so a run is not
repeated exactly; but its faults are.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any

LEASE_SECONDS = 2.0
FREEZE_SECONDS = 3.0  # beyond the lease, at most

# Faults a minute, from outside of the processes.
RATES = {
    "kill": 40.0,  # SIGKILL to a worker
    "freeze": 34.0,  # SIGSTOP to a worker, for longer than its lease
    "pause": 20.0,  # SIGSTOP to a worker, for less than its lease
    "strike": 14.0,  # SIGKILL to a producer or a reader of the log
    "watch": 8.0,  # SIGKILL or SIGSTOP to a process that only watches and fires
    "cut": 36.0,  # connections of the product are ended, one or all
    "hold": 6.0,  # somebody else's transaction stays open, with a lock on rows of ours
    "grip": 4.0,  # the same for what others must lock: parents, heads of agents, batches, commands, windows, schedules
    "bar": 2.0,  # somebody else has a whole table to himself
    "hog": 6.0,  # handlers take every connection of their worker's pool
    "crash": 1.2,  # SIGKILL to one backend: PostgreSQL throws everybody out and recovers
    "outage": 1.2,  # SIGKILL to PostgreSQL; started again a moment later
    "hush": 2.0,  # SIGKILL to NATS, the doorbell of some lives; started again a moment later
}
# Stretches in which every worker and watchdog is killed soon after it has begun (--short-lives).
SHORT_LIVES = {"short": 4.0}
# An hour of ordinary days, in some minutes: what a soak meets.
MILD = {"kill": 1.0, "cut": 1.0, "hold": 0.5, "outage": 0.05}

# Renewals that are held up come after so many leases.
OVERRUN_OF_LEASE = 1.75
# In the processes: answers that are lost though the database has committed, renewals that come too late, and deaths at the
# worst places.
BUGS = (
    "claim.committed=away%0.01",
    "settle.committed=away%0.01",
    "step.committed=away%0.02",
    "wait.committed=away%0.02",
    "birth.committed=away%0.02",
    "park.committed=away%0.02",
    "renew.before=away%0.05",
    "renew.before=delay:{overrun:g}%0.7",  # whoever holds something for as long as its lease overruns it, and lives
    "settle.inside=kill%0.002",
    "claim.committed=kill%0.001",
    "settle.committed=kill%0.001",
    "handler.returned=kill%0.0005",
    "fire.written=away%0.05",
    "fire.committed=away%0.05",
    "batch.dispatched=away%0.05",
    "batch.sent=away%0.05",
    "batch.closed=away%0.02",
    "command.processed=away%0.02",
    "async_task.settled=away%0.02",
    "ingest.claimed=away%0.05",
    "ingest.written=away%0.02",
    "ingest.committed=away%0.02",
    "ingest.ending=away%0.02",
    "ingest.ended=away%0.02",
    "watchdog.found=away%0.02",
    "watchdog.acted=away%0.02",
)
PRODUCER_BUGS = (
    "create.committed=away%0.03",  # asked for again by the product itself
    "create.committed=kill%0.01",  # asked for again by the producer's next life
    "create.before=away%0.01",
    "command.sent=away%0.05",
    "ingest.planned=away%0.05",
)
# Of a producer's acts: it dies with the answer in its hands, before it could write it down.
FORGETS = 0.03
DOORBELLS = ("postgres", "postgres", "nats", "nats", "lossy", "doubled", "late", "none")


@dataclass(frozen=True)
class Fault:
    """One fault from outside."""

    at: float
    kind: str
    whom: float
    seconds: float

    def told(self) -> dict[str, Any]:
        """Return it as it is written down."""
        return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(self).items()}


@dataclass(frozen=True)
class Life:
    """How one life of one process is hampered."""

    faults: str
    doorbell: str
    clock: float
    pool: int
    forgets: float = 0.0


def draw(seed: int, seconds: float, *, rates: dict[str, float] = RATES, lease: float = LEASE_SECONDS) -> list[Fault]:
    """Draw the faults of a run, in the order of time; each kind by dice of its own, so that one more changes no other."""
    found = []
    for kind, rate in rates.items():
        dice = random.Random(f"{seed} {kind}")
        often = rate * _share(kind, lease)
        # At least one of each: what did not occur shows nothing.
        for _ in range(max(1, round(often * seconds / 60))):
            at = dice.uniform(min(2.0, seconds / 10), seconds * 0.97)
            found.append(Fault(at, kind, dice.random(), _length(kind, dice, lease)))
    return sorted(found, key=lambda fault: fault.at)


def _share(kind: str, lease: float) -> float:
    """Say how much seldomer a fault is where leases are longer: whoever is frozen past his lease does nothing for so long."""
    return (LEASE_SECONDS + FREEZE_SECONDS) / (lease + FREEZE_SECONDS) if kind == "freeze" else 1.0


def _length(kind: str, dice: random.Random, lease: float) -> float:
    spans = {
        "freeze": (lease + 0.6, lease + FREEZE_SECONDS),
        "pause": (0.05, lease / 2),
        "outage": (0.0, 1.5),
        "hold": (0.2, 2.0),
        "grip": (0.5, 12.0),  # also for longer than a statement of ours may wait
        "bar": (0.2, 2 * lease),  # also for longer than a lease, in which nobody can renew
        "hush": (0.2, 2.0),
        "hog": (0.3, 1.5),
        "short": (6.0, 10.0),
    }
    return dice.uniform(*spans[kind]) if kind in spans else 0.0


def life(seed: int, name: str, nth: int, *, role: str, calm: bool = False, lease: float = LEASE_SECONDS) -> Life:
    """Say how the nth life of a process is hampered; calm: not at all."""
    if calm:
        return Life("", "postgres", 0.0, 10)
    dice = random.Random(f"{seed} {name} {nth}")
    bugs = PRODUCER_BUGS if role == "producer" else BUGS
    told = [bug.format(overrun=lease * OVERRUN_OF_LEASE) for bug in bugs]
    faults = ";".join(f"{bug}?seed={dice.randrange(1_000_000)}" for bug in told)
    clock = dice.choice((0.0, 0.0, 0.0, -3600.0, -2.0, 2.0, 86_400.0))
    forgets = FORGETS if role == "producer" else 0.0
    return Life(faults, dice.choice(DOORBELLS), clock, dice.choice((2, 4, 10)), forgets)
