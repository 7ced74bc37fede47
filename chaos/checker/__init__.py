"""Whether histories and tables tell one story in which nothing was lost, nothing ended twice and nothing hangs.

It shares no code with the product: lines of text, and SQL of its own over psycopg. Each check is one sentence about one
promise and gives what breaks it.
"""

from __future__ import annotations

from collections import Counter

from chaos.checker import domains, ends, survivors, tasks, turns
from chaos.checker.evidence import Evidence

SHOWN = 6
CHECKS = (*ends.CHECKS, *tasks.CHECKS, *turns.CHECKS, *domains.CHECKS, survivors.who_lives_on_works_on)


def check(seen: Evidence) -> tuple[list[str], Counter[str]]:
    """Return what is wrong, of each kind the first few; and how much each check found."""
    said, counted = [], Counter[str]()
    for each in CHECKS:
        found = list(each(seen))
        counted[each.__name__] = len(found)
        said += [f"{each.__name__}: {what}" for what in found[:SHOWN]]
        if len(found) > SHOWN:
            said.append(f"{each.__name__}: and {len(found) - SHOWN} more")
    return said, counted


def names() -> list[str]:
    """Name the checks."""
    return [each.__name__ for each in CHECKS]
