"""What became of the bars and goals of a run, counted, and by name where one is not reached.

Nobody writes such a sentence by hand: it would be of an earlier run than the table below it.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.bars import INSIDE, MET, MISSED, NOT_MEASURED, OUTSIDE, Verdict

Judged = Sequence[tuple[str, Verdict]]

BARS = {
    MET: "met",
    INSIDE: "undecided inside",
    OUTSIDE: "undecided outside",
    MISSED: "missed",
    NOT_MEASURED: "not measured",
}
GOALS = {
    MET: "met",
    INSIDE: "undecided inside",
    OUTSIDE: "not reached",
    MISSED: "not reached",
    NOT_MEASURED: "not measured",
}
UNNAMED = ("met", "undecided inside")


def told(judged: Judged) -> str:
    """Return the sentences that stand above the table; empty when there was nothing to judge."""
    bars = [(rule, each, BARS[each.of_bar]) for rule, each in judged if each.of_bar is not None]
    goals = [(rule, each, GOALS[each.of_goal]) for rule, each in judged if each.of_goal is not None]
    parts = [counted("bar", bars, list(BARS.values())), counted("goal", goals, list(dict.fromkeys(GOALS.values())))]
    return "\n\n".join(part for part in parts if part)


def counted(kind: str, found: Sequence[tuple[str, Verdict, str]], states: Sequence[str]) -> str:
    """Count one kind by what became of it, and name what is not reached."""
    if not found:
        return ""
    named = {state: [name(rule, each) for rule, each, said in found if said == state] for state in states}
    counts = ", ".join(f"{len(names)} {state}" for state, names in named.items())
    head = f"Of {len(found)} {kind}{'s' if len(found) > 1 else ''}: {counts}."
    lists = [
        f"{state[0].upper()}{state[1:]}: {'; '.join(names)}."
        for state, names in named.items()
        if names and state not in UNNAMED
    ]
    return " ".join([head, *lists])


def name(rule: str, verdict: Verdict) -> str:
    against = f" (against {verdict.against})" if verdict.against else ""
    return f"{rule} {verdict.what}{against}"
