"""What a run measured."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos import terms
from chaos.checker import able, again, alone, claims, survivors, zombies
from chaos.checker.able import Able
from chaos.checker.cases import STEADY, cases
from chaos.checker.evidence import Evidence
from chaos.checker.line import waits as stood_in_line
from chaos.checker.recovery import recoveries, windows
from chaos.history import Line

FORGET = "forget"  # how a producer says that it dies before it has written down what it was told
Spread = tuple[int, float, float, float]  # how many, median, p99, worst, where nothing else is said


@dataclass(frozen=True)
class Figures:
    """The numbers of one run."""

    tasks: int
    turns: int
    batches: int
    commands: int
    records: int
    acknowledged: int
    acts: dict[str, int]  # what producers had acknowledged, by kind
    started: int  # tasks that began, of those whose starts are counted
    starts_per_task: float
    started_again: dict[str, int]  # by what forced it
    unforced: list[str]  # each start again that nothing forced
    faults: dict[str, int]
    faults_inside: int  # so many of them inside of the processes
    zombies_fenced: int
    taken_back: Spread
    recovery: Spread
    recovery_kinds: dict[str, Spread]  # the same, by what it is work at
    taken_back_by_the_clock: Spread  # also while nobody could
    recovery_by_the_clock: Spread
    recovery_fell: int  # of those judged: another had claimed it in between and was struck before it began
    recovery_work: dict[str, int]  # what was taken back, by what it is work at
    recovery_unbegun: int  # claims that ended by their lease before a handler spoke in them
    recovery_left_out: dict[str, int]  # by why
    windows: Spread  # of ingestion, taken back
    windows_by_the_clock: Spread
    first_success: Spread  # how many outages; the worst since somebody asked, since it was back, since it was killed
    first_end: (
        Spread  # how many outages; the worst since a worker could end something, since it was back, since it was killed
    )
    idle: int  # lives that were awake and began nothing though there was work
    idle_could: int  # lives of which that would have been told
    waits: int  # so often a task stood in line until it was claimed, of those of which it is asked whether they starve
    alone: dict[str, int]  # who was left alone, by what its part is
    cases: dict[str, int]

    @property
    def faults_in_all(self) -> int:
        """How often something broke."""
        return sum(self.faults.values())


def measure(seen: Evidence, folder: Path, *, lease: float) -> Figures:
    """Count and measure."""
    starts = [line for line in seen.of("start") if line["task"] in seen.tasks]
    # A retry that the handler asked for is no second start, nor is the replay of a durable handler that parked.
    plain = [line for line in starts if seen.tasks[line["task"]]["name"] in STEADY]
    started = Counter(line["task"] for line in plain)
    could = Able(seen.lines, lease=lease)
    found = recoveries(seen)
    begun = [
        (work, max(could.waited(*wait, lease=lease, roles=able.WORKERS) for wait in waits))
        for work, waits in found.begun_judged
    ]
    held = lease * terms.INGEST_OF_LEASE  # so long are leases of windows
    windows_lost = windows(seen)
    fenced = zombies.fenced(seen, lease=lease)
    lived = survivors.Fleet(seen.lines, lease=lease).judge()
    forced, unforced = again.causes(plain, again.Past(seen.lines, claims.over(seen), lease=lease))
    return Figures(
        tasks=len(seen.tasks),
        turns=_count(seen, "agent_inbox where message_type = 'turn'"),
        batches=_count(seen, "pmo_batches"),
        commands=_count(seen, "command_inbox"),
        records=seen.ask("select count(*) as n from public.cargo")[0]["n"],
        acknowledged=sum(1 for _ in seen.of("ok")),
        acts=dict(sorted(Counter(str(line["act"]) for line in seen.of("ok")).items())),
        started=len(started),
        starts_per_task=round(sum(started.values()) / max(1, len(started)), 4),
        started_again=forced,
        unforced=unforced,
        faults=_faults(seen, folder),
        faults_inside=_faults_inside(seen, folder),
        zombies_fenced=fenced,
        taken_back=_spread(could.waited(*wait, lease=lease, roles=able.WATCHERS) for wait in found.taken_back),
        recovery=_spread(waited for _, waited in begun),
        recovery_kinds={work: _spread(waited for kind, waited in begun if kind == work) for work in claims.WORK},
        recovery_fell=found.fell,
        taken_back_by_the_clock=_spread(until - since for _, since, until in found.taken_back),
        recovery_by_the_clock=_spread(until - since for _, since, until in found.begun),
        recovery_work={work: sum(each.work == work for each in found.lost) for work in claims.WORK},
        recovery_unbegun=found.unbegun,
        recovery_left_out=dict(found.left_out),
        windows=_spread(could.waited(*wait, lease=held, roles=able.WATCHERS) for wait in windows_lost),
        windows_by_the_clock=_spread(until - since for _, since, until in windows_lost),
        first_success=_first_successes(seen),
        first_end=_first_ends(seen, could),
        idle=len(lived.idle),
        idle_could=lived.could,
        waits=len(stood_in_line(seen)),
        alone=alone.left(seen),
        cases=cases(seen, _inside(folder), zombies=fenced, lost=found.lost),
    )


def _count(seen: Evidence, table: str) -> int:
    return int(seen.ask(f"select count(*) as n from ferryman.{table}")[0]["n"])


def _faults(seen: Evidence, folder: Path) -> dict[str, int]:
    """Count what struck: from outside, and inside of the processes; what a life was born with is a case, and no fault."""
    found = Counter(str(line["kind"]) for line in seen.of("struck"))
    found.update(f"{point} {action}" for point, action in _inside(folder))
    return dict(found)


def _faults_inside(seen: Evidence, folder: Path) -> int:
    """Count those of the processes' own: a producer that dies with the answer in its hands has struck itself."""
    return sum(1 for _ in _inside(folder)) + sum(1 for line in seen.of("struck") if line["kind"] == FORGET)


def _inside(folder: Path) -> Iterable[tuple[str, str]]:
    for file in folder.glob("*.faults"):
        for line in file.read_text(encoding="utf-8").splitlines():
            point, action, *_ = line.split()
            yield point, action


def _spread(found: Iterable[float]) -> Spread:
    ordered = sorted(found)
    if not ordered:
        return 0, 0.0, 0.0, 0.0
    at = [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.99)]
    return len(ordered), round(at[0], 2), round(at[1], 2), round(ordered[-1], 2)


def _first_successes(seen: Evidence) -> Spread:
    """How long after the database was there again, and after it was killed, the first producer was acknowledged.

    Judged from when a producer asks: while too much is in line all of them wait, and nobody asks for anything.
    """
    oks = sorted(line["at"] for line in seen.of("ok"))
    asks = _asks(seen)
    waits = []
    for line in seen.of("back"):
        place = bisect_right(oks, line["at"])
        answered_at = oks[place] if place < len(oks) else math.inf
        asked = min((begun for begun, answered in asks if answered > line["at"]), default=line["at"])
        waits.append([answered_at - since for since in (max(asked, line["at"]), line["at"], line["killed"])])
    return _worst(waits)


def _first_ends(seen: Evidence, could: Able) -> Spread:
    """How long after the database was there again, and after it was killed, a worker brought the first task to its end.

    Judged from when something was in line or in hand, and without the time in which no worker was awake. An outage after which
    there was nothing to do is not counted.
    """
    ahead, looks = claims.offset(seen), list(seen.of("line"))
    claimed: dict[str, float] = {}
    ends: list[tuple[float, float]] = []  # when, and since when it was in hand
    for event in seen.events:
        if event["kind"] == "task" and event["to_state"] == "running":
            claimed[event["subject"]] = event["at"] - ahead
        elif event["kind"] == "task" and event["to_state"] == "succeeded":
            at = event["at"] - ahead
            ends.append((at, claimed.get(event["subject"], at)))
    ends.sort()
    waits = []
    for line in seen.of("back"):
        back, killed = line["at"], line["killed"]
        place = bisect_left(ends, (back, 0.0))
        ended, in_hand = ends[place] if place < len(ends) else (math.inf, math.inf)
        since = min(_in_line(looks, back, killed), in_hand)
        if since < math.inf:
            # The clock stands still from the start on while nobody is awake: there is no lease to wait for.
            judged = could.awake(max(since, back), ended, roles=able.WORKERS)
            waits.append([judged, ended - back, ended - killed])
    return _worst(waits)


def _in_line(looks: Sequence[Line], back: float, killed: float) -> float:
    """Say since when something was in line after an outage: it stays there if it was at the last look before."""
    before = [look["due"] for look in looks if look["at"] < killed]
    if before and before[-1]:
        return back
    return next((float(look["at"]) for look in looks if look["at"] >= back and look["due"]), math.inf)


def _worst(waits: Sequence[Sequence[float]]) -> Spread:
    worst = [round(max((wait[n] for wait in waits), default=0.0), 2) for n in (0, 1, 2)]
    return len(waits), worst[0], worst[1], worst[2]


def _asks(seen: Evidence) -> list[tuple[float, float]]:
    """Give from when to when producers had asked for something and had no answer; who died has ceased to ask."""
    found, since = [], dict[int, float]()
    for line in seen.lines:
        who = line["child"] if line["what"] == "died" else line["pid"]
        if line["what"] == "invoke":
            since.setdefault(who, line["at"])
        elif line["what"] in ("ok", "refused", "error", "died") and who in since:
            found.append((since.pop(who), line["at"]))
    return [*found, *((begun, float("inf")) for begun in since.values())]
