"""Explain for any object: what it is doing, why it is not running, which rule ends it and when (K22)."""

from __future__ import annotations

from uuid import UUID

from ferryman.app.doctor import work
from ferryman.dashboard import spelling
from ferryman.http.callers import Visit
from ferryman.kernel import errors
from ferryman.tasks.intake.explain import Ends, Explanation


async def explained(visit: Visit, id: UUID, *, state: str, doing: str = "") -> Explanation:
    """Return what is known of an object of this visit's tenant; of some kinds only `doing`, and what ends it."""
    try:
        return await visit.doors.tasks.explain(id)
    except errors.TaskNotFound:
        async with visit.app.database.session() as tx:
            bound = await work.bound(tx, id)
    ends = None
    if bound is not None:
        says = f"{bound['rule']} acts on it at {spelling.exact(bound['ends_by'])}."
        ends = Ends(bound["rule"], bound["ends_by"], bound["terminal_by"], says)
    return Explanation(id, "", state, doing or f"It is {state.lower()}.", (), ends, {})
