"""What a run measured, and whether it met the cases that it is for: a run that met none of them shows nothing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.checker import able, again
from chaos.checker.able import Able
from chaos.checker.evidence import Evidence
from chaos.history import Line

# What even a run of seconds meets, however busy the machine is.
SURE = ("a life had a doorbell that fails", "the database was killed")
WHOLE = ("postgres", "nats")


Spread = tuple[int, float, float, float]  # how many, median, p99, worst, where nothing else is said
Wait = tuple[str, float, float]  # of a task: from when to when


@dataclass(frozen=True)
class Figures:
    """The numbers of one run."""

    tasks: int
    turns: int
    batches: int
    commands: int
    records: int
    acknowledged: int
    started: int  # tasks that began, of those whose starts are counted
    starts_per_task: float
    started_again: dict[str, int]  # by what forced it
    faults: dict[str, int]
    zombies_fenced: int
    taken_back: Spread
    recovery: Spread
    taken_back_by_the_clock: Spread  # also while nobody could
    recovery_by_the_clock: Spread
    first_success: (
        Spread  # how many outages; the worst since somebody asked, since it was back, and since it was killed
    )
    cases: dict[str, int]

    @property
    def faults_in_all(self) -> int:
        """How often something broke."""
        return sum(self.faults.values())


def measure(seen: Evidence, folder: Path, *, lease: float) -> Figures:
    """Count and measure."""
    starts = [line for line in seen.of("start") if line["task"] in seen.tasks]
    # A retry that the handler asked for is no second start, nor is the replay of a durable handler that parked.
    plain = [line for line in starts if seen.tasks[line["task"]]["name"] in ("job", "plain", "hog", "tick")]
    started = Counter(line["task"] for line in plain)
    could = Able(seen.lines)
    taken_back, recovered = _taken_back(seen), _recoveries(seen)
    return Figures(
        tasks=len(seen.tasks),
        turns=_count(seen, "agent_inbox where message_type = 'turn'"),
        batches=_count(seen, "pmo_batches"),
        commands=_count(seen, "command_inbox"),
        records=seen.ask("select count(*) as n from public.cargo")[0]["n"],
        acknowledged=sum(1 for _ in seen.of("ok")),
        started=len(started),
        starts_per_task=round(sum(started.values()) / max(1, len(started)), 4),
        started_again=again.causes(plain, again.Past(seen.lines, _held_up(folder), lease=lease)),
        faults=_faults(seen, folder),
        zombies_fenced=_fenced(seen),
        taken_back=_spread(could.waited(*wait, lease=lease, roles=able.WATCHERS) for wait in taken_back),
        recovery=_spread(could.waited(*wait, lease=lease, roles=able.WORKERS) for wait in recovered),
        taken_back_by_the_clock=_spread(until - since for _, since, until in taken_back),
        recovery_by_the_clock=_spread(until - since for _, since, until in recovered),
        first_success=_first_successes(seen),
        cases=_cases(seen, folder),
    )


def _count(seen: Evidence, table: str) -> int:
    return int(seen.ask(f"select count(*) as n from ferryman.{table}")[0]["n"])


def _faults(seen: Evidence, folder: Path) -> dict[str, int]:
    """Count what struck: from outside, and inside of the processes."""
    found = Counter(str(line["kind"]) for line in seen.of("struck"))
    found.update(f"{point} {action}" for point, action in _inside(folder))
    lives = [line for line in seen.of("born") if line["role"] in ("worker", "dog", "producer")]
    found.update(f"doorbell {line['doorbell']}" for line in lives if line["doorbell"] not in WHOLE)
    found["clock"] = sum(line["clock"] != 0 for line in lives)
    return dict(found)


def _inside(folder: Path) -> Iterable[tuple[str, str]]:
    for point, action, *_ in _struck_inside(folder):
        yield point, action


def _held_up(folder: Path) -> Iterable[int]:
    """Give the processes whose renewals did not go out, or too late."""
    return (int(pid) for point, _action, _number, pid in _struck_inside(folder) if point == "renew.before")


def _struck_inside(folder: Path) -> Iterable[list[str]]:
    for file in folder.glob("*.faults"):
        for line in file.read_text(encoding="utf-8").splitlines():
            yield line.split()


def _fenced(seen: Evidence) -> int:
    """Add up what each process counted of its own stale writes."""
    last: dict[tuple[str, str, str], float] = {}
    for line in seen.of("fenced"):
        last[line["who"], line["domain"], line["move"]] = line["count"]
    return round(sum(last.values()))


def _outages(seen: Evidence) -> list[tuple[float, float]]:
    """Give the times in which the database was away, and a lease after: then nobody is judged."""
    away = [(line["killed"], line["at"]) for line in seen.of("back")]
    away += [(line["at"], line["at"] + 1.0) for line in seen.of("struck") if line["kind"] == "crash"]
    return sorted(away)


def _lost(seen: Evidence) -> Iterator[tuple[Line, float, float | None]]:
    """Give each start that its holder had in hand when it was killed: when that was, and when it was taken from him.

    What he had parked or handed back before is not among them: it waits for something else.
    """
    offset = next(line["wall"] - line["at"] for line in seen.of("clock"))
    back: dict[str, list[float]] = defaultdict(list)
    for event in seen.events:
        if event["kind"] == "task" and event["from_state"] == "running":
            back[event["subject"]].append(event["at"] - offset)
    died = {line["child"]: line["at"] for line in seen.of("died")}
    done = {(line["task"], line["epoch"]) for line in seen.of("effect")}
    for line in seen.of("start"):
        death = died.get(line["pid"])
        if death is None or (line["task"], line["epoch"]) in done:
            continue
        moves = back[line["task"]]
        place = bisect_right(moves, death)
        if bisect_right(moves, line["at"]) == place:
            yield line, death, moves[place] if place < len(moves) else None


def _taken_back(seen: Evidence) -> list[Wait]:
    """From its holder's SIGKILL to when each unfinished start was taken back, whether or not anybody had room for it."""
    return _judged(seen, ((line["task"], death, at) for line, death, at in _lost(seen) if at is not None))


def _recoveries(seen: Evidence) -> list[Wait]:
    """From its holder's SIGKILL to when each unfinished start was begun anew, the database being there."""
    starts = {(line["task"], line["epoch"]): line["at"] for line in seen.of("start")}
    again = ((line["task"], death, starts.get((line["task"], line["epoch"] + 1))) for line, death, _ in _lost(seen))
    return _judged(seen, ((task, death, at) for task, death, at in again if at is not None))


def _judged(seen: Evidence, waits: Iterable[Wait]) -> list[Wait]:
    """Leave out what met an outage: after one every judgement is put off by a lease."""
    outages = _outages(seen)
    return [
        (task, death, at)
        for task, death, at in waits
        if not any(begin < at and death < end + 5.0 for begin, end in outages)
    ]


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
        if place < len(oks):
            asked = min((begun for begun, answered in asks if answered > line["at"]), default=line["at"])
            waits.append([oks[place] - since for since in (max(asked, line["at"]), line["at"], line["killed"])])
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


def _cases(seen: Evidence, folder: Path) -> dict[str, int]:
    """Count the cases that a run is for."""
    claims = Counter(row["epoch"] > 1 for row in seen.tasks.values())
    struck = Counter(line["kind"] for line in seen.of("struck"))
    kills = sorted(line["at"] for line in seen.of("died"))
    runs = seen.ask("select count(*) as n from ferryman.ingest_run where attempt > 1 or epoch > 1")[0]["n"]
    turns = seen.ask(
        "select count(*) as n from (select agent_turn_id from ferryman.agent_steps group by 1"
        " having count(distinct turn_epoch) > 1) as several"
    )[0]["n"]
    taken_back = sum(bool(line.get("cancelled")) for line in seen.of("ok", act="cancel"))
    too_late = sum(not line.get("cancelled") for line in seen.of("ok", act="cancel"))
    first, last = (kills[0], kills[-1]) if kills else (0.0, 0.0)
    oks = sorted(line["at"] for line in seen.of("ok"))
    return {
        "a stale write was fenced": _fenced(seen),
        "a task was claimed again": claims[True],
        "a lost acknowledgement was repeated and met its task": sum(
            bool(line.get("hit")) for line in seen.of("ok") if line["again"]
        ),
        "an act was repeated by the next life of its producer": sum(line["again"] for line in seen.of("ok")),
        "a producer was told that the database is away": sum(line["retryable"] for line in seen.of("refused")),
        "a task was cancelled": taken_back,
        "a cancel came too late": too_late,
        "a turn was taken over by another worker": turns,
        "a run of ingestion was taken over": runs,
        "the database was killed": struck["outage"],
        "a backend was killed": struck["crash"],
        "connections were cut": struck["cut"],
        "a stranger held rows": struck["hold"],
        "handlers held every connection": sum(1 for _ in seen.of("hogs")),
        "a life had a doorbell that fails": sum(line["doorbell"] not in WHOLE for line in seen.of("born")),
        "a life had NATS for its doorbell": sum(line["doorbell"] == "nats" for line in seen.of("born")),
        "the NATS server was killed": struck["hush"],
        "a life had a wrong clock": sum(line["clock"] != 0 for line in seen.of("born")),
        "an answer was lost after its commit": sum(
            point.endswith((".committed", ".sent", ".ended", ".claimed")) and action == "away"
            for point, action in _inside(folder)
        ),
        "work was acknowledged between two deaths": bisect_left(oks, last) - bisect_left(oks, first),
    }


def missing(figures: Figures, *, short: bool) -> list[str]:
    """Name the cases that did not occur often enough; a short run cannot meet them all."""
    return [
        f"never, or too seldom: {case} ({count})"
        for case, count in figures.cases.items()
        if count < (1 if short else 3) and (case in SURE or not short)
    ]
