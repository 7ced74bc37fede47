"""What is repaired: the rules that end tasks, and what must always be true of them."""

from __future__ import annotations

from ferryman.kernel.invariants import Invariant, declare

_HERE = "ferryman.tasks"

TASK_INVARIANTS: tuple[Invariant, ...] = (
    declare(_HERE, "running_is_leased", "A task is running if and only if somebody holds its lease."),
    declare(_HERE, "claimed_has_a_fence", "Each claim was counted and fenced."),
    declare(_HERE, "live_has_a_clock", "Every live task has a time by which a rule ends it."),
    declare(_HERE, "one_place_to_wait", "A live task is claimable, or waits for a time, or is leased.", deep=True),
    declare(_HERE, "ended_is_finished", "A task has a time of finishing if and only if it has ended.", deep=True),
    declare(_HERE, "attempts_within_cap", "No task has used more attempts than it was given.", deep=True),
    declare(_HERE, "live_is_bounded", "Every live task is listed with the rule that ends it.", deep=True),
    declare(_HERE, "one_row_per_key", "One idempotency key has made one task.", deep=True),
    declare(_HERE, "row_and_log_agree", "A task's row and its last event tell the same state and attempt.", deep=True),
    declare(_HERE, "one_end", "A task ends once, and nothing follows.", deep=True),
    declare(_HERE, "legal_moves", "Only legal moves are in the log.", deep=True),
    declare(_HERE, "unbroken_log", "Each move begins where the one before ended.", deep=True),
    declare(_HERE, "claims_are_logged", "Every claim of a task is in the log.", deep=True),
    declare(_HERE, "one_tenant", "A task and its events belong to one tenant.", deep=True),
)
