"""Whether histories and tables tell one story in which nothing was lost, nothing ended twice and nothing hangs.

It shares no code with the product: lines of text, and SQL of its own over psycopg. Each check is one sentence about one
promise and gives what breaks it.
"""

from __future__ import annotations

from collections import Counter

from chaos.checker import again, alone, domains, ends, line, survivors, tasks, turns
from chaos.checker.evidence import Evidence

SHOWN = 6
CHECKS = (
    *ends.CHECKS,
    *tasks.CHECKS,
    *turns.CHECKS,
    *domains.CHECKS,
    again.no_start_without_a_fault,
    line.nothing_is_passed_over,
    survivors.who_lives_on_works_on,
    alone.who_is_left_alone_does_all_its_part,
)
# What can be asked where rows leave before a run is over: of the log, of the histories, and of the rows that are left.
WITHOUT_ROWS = (
    ends.one_end_for_each_row,
    ends.acknowledged_ended_once,
    ends.nothing_lives_on,
    ends.a_cancel_that_did_nothing_came_too_late,
    ends.nothing_outlives_what_bore_it,
    tasks.the_log_is_read_whole,
    turns.one_holder_for_each_claim_of_a_turn,
    domains.nobody_was_refused_for_good,
    domains.the_products_own_invariants_hold,
    domains.nobody_left_a_trace_of_a_crash,
    again.no_start_without_a_fault,
    survivors.who_lives_on_works_on,
)


def check(seen: Evidence, *, rows_leave: bool = False) -> tuple[list[str], Counter[str]]:
    """Return what is wrong, of each kind the first few; and how much each check found."""
    said, counted = [], Counter[str]()
    for each in WITHOUT_ROWS if rows_leave else CHECKS:
        found = list(each(seen))
        counted[each.__name__] = len(found)
        said += [f"{each.__name__}: {what}" for what in found[:SHOWN]]
        if len(found) > SHOWN:
            said.append(f"{each.__name__}: and {len(found) - SHOWN} more")
    return said, counted


def names() -> list[str]:
    """Name the checks."""
    return [each.__name__ for each in CHECKS]
