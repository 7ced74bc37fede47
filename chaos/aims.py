"""What the figures of a run should be: each beside its aim, and whether it is enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from chaos import terms
from chaos.alone import ROLES
from chaos.checker.again import NOTHING
from chaos.checker.survivors import BESIDE, LONG_SECONDS
from chaos.soak import FALLING

Found = dict[str, Any]  # what a run found, by name (report.py)

# After the database is back: the first answer to a producer, and the first task that a worker ends.
FIRST_SECONDS = 5.0

# How a soak names what has a level and not only a slope.
HIGH = {
    "dead rows": "dead rows in the middle of the run, the highest share of {} tables",
    "oldest transaction": "oldest transaction of ours at a look",
}
# Of fewer there is no p99.
HUNDRED = 100


class Aim(NamedTuple):
    """One figure: what it is, what it should be, what it is, and whether that is enough."""

    what: str
    aim: str
    value: str
    held: bool = True


def judge(found: Found) -> list[Aim]:
    """Return each figure with its aim; a soak has its own."""
    return _mild(found) if "soak" in found else _wild(found)


def _mild(found: Found) -> list[Aim]:
    """Nothing may be lost, nothing may grow, and work may not get slower."""
    grew = [
        Aim(
            f"{kind}, how much fewer" if kind in FALLING else f"{kind}, what grew most of {each['judged']}",
            f"≤ {_sized(kind, each['bar'])} an hour",
            f"{_sized(kind, each['an_hour'])} an hour ({each['who']}, in the middle {_sized(kind, each['middle'])})",
            each["an_hour"] <= each["bar"],
        )
        for kind, each in found["soak"].items()
    ]
    high = [
        Aim(
            HIGH[kind].format(each["judged"]),
            f"≤ {_sized(kind, each['bar'])}",
            f"{_sized(kind, each['value'])} ({each['who']}, of {each['looks']} looks)",
            each["value"] <= each["bar"],
        )
        for kind, each in found["levels"].items()
    ]
    wide = [
        Aim(
            f"bytes of {kind}, times what they are written anew, most of {each['judged']}",
            f"≤ {each['bar']:g}",
            f"{each['times']:.2f} ({each['name']}, {_sized('bytes', each['bytes'])})",
            each["times"] <= each["bar"],
        )
        for kind, each in found["wide"].items()
    ]
    paused = found["spared"]
    spared = Aim(
        "longest time in which the worker that is spared began nothing",
        f"≤ {LONG_SECONDS:g} s",
        f"{paused['seconds']:.1f} s, and began {paused['begun']:,} in all",
        paused["begun"] > 0 and paused["seconds"] <= LONG_SECONDS,
    )
    beside = Aim(
        "what it began in a second awake, beside its peers",
        f"≥ {BESIDE:.0%}",
        f"{paused['beside']:.0%}",
        paused["beside"] >= BESIDE,
    )
    return [*_kept(found), spared, beside, *high, *wide, *grew]


def _sized(kind: str, value: float) -> str:
    match kind:
        case "memory" | "bytes":
            return f"{value / (1 << 20):.1f} MiB"
        case "dead share" | "dead rows":
            return f"{value * 100:.1f} %"
        case "oldest transaction":
            return f"{value:.1f} s"
        case _:
            return f"{value:,.1f}"


def _kept(found: Found) -> list[Aim]:
    return [
        _none("lost", found["lost"], found["acknowledged"], "acknowledged"),
        _none("second ends", found["second_ends"], found["tasks"], "tasks"),
        _none("overdue", found["overdue"], found["looks"], "looks"),
    ]


def _none(what: str, count: int, of: int, named: str) -> Aim:
    """There should be none of it; where there was nothing to look at, that is not known."""
    return Aim(what, "0", f"{count:,} of {of:,} {named}", count == 0 and of > 0)


def _wild(found: Found) -> list[Aim]:
    share = min(1.0, found["minutes"] / terms.WHOLE_MINUTES)
    faults, zombies, soonest = round(1000 * share), round(200 * share), found["lease"] + 1
    return [
        *_kept(found),
        Aim(
            "starts per task",
            "≤ 1.05",
            f"{found['starts_per_task']:.3f} of {found['started']:,}",
            found["started"] > 0 and found["starts_per_task"] <= 1.05,
        ),
        _none("starts that no fault forced", found["started_again"][NOTHING], found["started"], "tasks"),
        _none("tasks that were passed over in line", found["passed_over"], found["waits"], "waits"),
        _none(
            "workers that lived on and began nothing, with tasks in line",
            found["idle"],
            found["idle_could"],
            "lives long enough",
        ),
        Aim(
            "survivors that were left alone, and what one of them did not do: tasks, turns, windows, firings, leases",
            "0",
            f"{found['alone_short']:,} of {' and '.join(f'{count} {role}s' for role, count in found['alone'].items())}",
            found["alone_short"] == 0 and Counter(found["alone"]) >= Counter(ROLES),
        ),
        Aim(
            "faults",
            f"≥ {faults:,}",
            f"{found['faults']:,} ({found['faults'] - found['faults_inside']:,} from outside,"
            f" {found['faults_inside']:,} inside of the processes)",
            found["faults"] >= faults,
        ),
        Aim("zombies fenced", f"≥ {zombies:,}", f"{found['zombies_fenced']:,}", found["zombies_fenced"] >= zombies),
        Aim(
            f"work of a killed worker taken back, p99 (lease {found['lease']:g} s)",
            f"≤ {soonest:g} s",
            f"{found['taken_back_p99']:.2f} s of {found['taken_back']:,} (median {found['taken_back_p50']:.2f} s, worst"
            f" {found['taken_back_worst']:.2f} s)",
            found["taken_back"] > 0 and found["taken_back_p99"] <= soonest,
        ),
        Aim(
            "by the clock, also while nobody watched, a stranger held the row or the database was away",
            "",
            _clocked(found["taken_back_by_the_clock"]),
        ),
        Aim(
            "and begun anew, p99",
            f"≤ {soonest:g} s",
            f"{found['recovery_p99']:.2f} s of {found['recoveries']:,} (median {found['recovery_p50']:.2f} s, worst"
            f" {found['recovery_worst']:.2f} s)",
            found["recoveries"] > 0 and found["recovery_p99"] <= soonest,
        ),
        Aim(
            "by the clock, also while no worker was awake, a stranger held the row or the database was away",
            "",
            _clocked(found["recovery_by_the_clock"]),
        ),
        *_each_kind(found),
        Aim("claimed in between by another who never began it: judged as two waits", "", f"{found['recovery_fell']:,}"),
        Aim("so many were", "", ", ".join(f"{work} {count:,}" for work, count in found["recovery_work"].items())),
        Aim(
            "not looked at: claims that ended by their lease before their handler began, nobody knows whose",
            "",
            f"{found['recovery_unbegun']:,}",
        ),
        *(
            Aim(f"left out of what is judged: {why}", "", f"{count:,}")
            for why, count in found["recovery_left_out"].items()
        ),
        *_windows(found["windows"], found["lease"] * terms.INGEST_OF_LEASE),
        Aim("by the clock, likewise", "", _clocked(found["windows_by_the_clock"])),
        Aim(
            "first success after the database was killed",
            f"≤ {FIRST_SECONDS:g} s",
            f"{found['first_success_worst']:.2f} s after it was back and somebody asked"
            f" ({found['first_success_since_back']:.2f} s after it was back,"
            f" {found['first_success_since_killed']:.2f} s after the kill), the worst of {found['outages']}",
            found["outages"] > 0 and found["first_success_worst"] <= FIRST_SECONDS,
        ),
        Aim(
            "first task ended by a worker after the database was killed",
            f"≤ {FIRST_SECONDS:g} s",
            f"{found['first_end_worst']:.2f} s after it was back, something was in line and a worker awake"
            f" ({found['first_end_since_back']:.2f} s after it was back,"
            f" {found['first_end_since_killed']:.2f} s after the kill), the worst of {found['first_ends']}",
            found["first_ends"] > 0 and found["first_end_worst"] <= FIRST_SECONDS,
        ),
    ]


def _each_kind(found: Found) -> list[Aim]:
    """Of a thousand tasks and three turns a p99 says nothing of the turns: each kind of work is judged by its worst."""
    latest = 2 * found["lease"] + 1
    kinds = {work: (spread[0], spread[3]) for work, spread in found["recovery_kinds"].items() if spread[0]}
    worst = max(kinds, key=lambda work: kinds[work][1], default=None)
    told = [f"{work} {worst:.2f} s of {count:,}" for work, (count, worst) in kinds.items()]
    told += [f"{work} never" for work in found["recovery_kinds"] if work not in kinds]
    return [
        Aim(
            "and begun anew, worst of any kind of work",
            f"≤ {latest:g} s",
            "nothing was begun anew" if worst is None else f"{kinds[worst][1]:.2f} s ({worst}, of {kinds[worst][0]:,})",
            worst is not None and kinds[worst][1] <= latest,
        ),
        Aim("the worst of each kind, of how many that are judged", "", ", ".join(told)),
    ]


def _windows(spread: Sequence[float], lease: float) -> list[Aim]:
    """Of fewer than a hundred the p99 is the worst: they are judged by that, with the bar that the worst of others has."""
    count, _, slow, worst = spread
    latest = 2 * lease + 1
    judged = Aim(
        f"windows of a killed executor taken back, worst (lease {lease:g} s)",
        f"≤ {latest:g} s",
        _clocked(spread),
        count > 0 and worst <= latest,
    )
    soonest = Aim(
        "windows of a killed executor taken back, p99", f"≤ {lease + 1:g} s", f"{slow:.2f} s", slow <= lease + 1
    )
    return [judged, soonest] if count >= HUNDRED else [judged]


def _clocked(spread: Sequence[float]) -> str:
    count, middle, slow, worst = spread
    return f"{slow:.2f} s of {count:,} (median {middle:.2f} s, worst {worst:.2f} s)"


def short(found: Found) -> list[str]:
    """Name the figures that are short of their aims."""
    return [f"short of its aim: {each.what} ({each.aim}): {each.value}" for each in judge(found) if not each.held]
