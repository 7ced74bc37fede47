"""What a caller asks of the planner, checked before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ferryman.ingest.model import Budget, Cut
from ferryman.ingest.rules import budget, expression, keys, slicing, windows
from ferryman.ingest.rules.expression import DoesNotCompile
from ferryman.ingest.rules.refusal import Refused
from ferryman.ingest.rules.windows import Wanted
from ferryman.kernel import errors, ids, payload

TRIGGERS = ("SCHEDULE", "MANUAL", "API")


@dataclass(frozen=True, slots=True)
class Asked:
    """A sound request for a plan."""

    operation: str
    wanted: Wanted
    strategy: str
    params: Mapping[str, Any]
    expression: Mapping[str, Any]
    expr_hash: str
    budget: Budget
    campaign: str

    @property
    def dimension(self) -> str:
        """What is counted: time, ids or landmarks without an order."""
        if self.strategy == slicing.ID_RANGE:
            return "id"
        unordered = self.strategy == slicing.CURSOR_LANDMARK and _opaque(self.params)
        return "landmark" if unordered else "time"


def read(
    *,
    operation: str,
    since: datetime | None,
    until: datetime | None,
    strategy: str,
    params: Mapping[str, Any] | None,
    asked: Any,
    given_budget: Any,
    campaign: str | None,
) -> Asked:
    """Check a request; whatever is wrong has its own code, and nothing was stored."""
    try:
        if operation not in windows.OPERATIONS:
            raise Refused("operation", f"one of {', '.join(windows.OPERATIONS)}", repr(operation))
        if strategy not in slicing.STRATEGIES:
            raise Refused("strategy", f"one of {', '.join(slicing.STRATEGIES)}", repr(strategy))
        if params is not None and not isinstance(params, Mapping):
            raise Refused("params", "values by name", type(params).__name__)
        allowed = budget.read(given_budget)
    except Refused as wrong:
        raise errors.IngestInvalidRequest(str(wrong), field=wrong.field) from None
    payload.encode(dict(params or {}), error=errors.IngestInvalidRequest)
    wanted = Wanted(_instant(since, "since"), _instant(until, "until"))
    if wanted.since is not None and wanted.until is not None and wanted.since >= wanted.until:
        told = f"{wanted.since.isoformat()} to {wanted.until.isoformat()}"
        raise errors.IngestInvalidWindow(f"window: expected since before until, got {told}.", field="since")
    try:
        found = expression.read(asked)
    except DoesNotCompile as wrong:
        raise errors.IngestInvalidExpression(f"expression: {wrong}.", field="expression") from None
    payload.encode(found, error=errors.IngestInvalidExpression)
    made = Asked(
        operation, wanted, strategy, dict(params or {}), found, expression.hashed(found), allowed,
        "" if campaign is None else ids.check_name(campaign, "campaign"),
    )  # fmt: skip
    _compiles(made)
    return made


def cut(asked: Asked, lower: int | None, upper: int | None) -> list[Cut]:
    """Cut the window."""
    try:
        return slicing.cut(asked.strategy, lower=lower, upper=upper, params=asked.params)
    except Refused as wrong:
        kind = errors.IngestInvalidWindow if wrong.field == "window" else errors.IngestInvalidRequest
        raise kind(str(wrong), field=wrong.field) from None


def bounds(asked: Asked) -> tuple[int | None, int]:
    """Return the first and the last id of a request by ids; the first may be left to the cursor."""
    first, last = asked.params.get("first"), asked.params.get("last")
    for name, value in (("first", first), ("last", last)):
        missing = value is None and name == "first"
        if not missing and (isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63):
            got = "nothing" if value is None else repr(value)
            told = f"params.{name}: expected a whole number, got {got}."
            raise errors.IngestInvalidRequest(told, field=f"params.{name}")
    assert isinstance(last, int)
    if first is not None and first >= last:
        raise errors.IngestInvalidWindow(f"params: expected first below last, got {first} to {last}.", field="first")
    return first, last


def key(asked: Asked, *, source: str, endpoint: str, lower: int | None, upper: int | None, rewinds: int) -> str:
    """Return the key of the plan: what is asked again makes nothing twice."""
    return keys.digest(
        "plan", source, asked.operation, endpoint, lower, upper, asked.strategy, dict(asked.params), asked.expr_hash,
        asked.campaign, rewinds,
    )  # fmt: skip


def namespace(asked: Asked, *, lower: int | None, upper: int | None) -> tuple[str, str]:
    """Return the namespace of the cursor (I2): harvest's own or its expression's; any other operation has one for itself."""
    if asked.operation == windows.HARVEST:
        return ("EXPR", asked.expr_hash) if asked.expression else ("GLOBAL", "")
    if asked.campaign:
        return "CUSTOM", asked.campaign
    return "CUSTOM", keys.digest(asked.operation, lower, upper, asked.strategy, dict(asked.params), asked.expr_hash)


def _instant(at: datetime | None, name: str) -> datetime | None:
    if at is None:
        return None
    if getattr(at, "tzinfo", None) is None:
        raise errors.IngestInvalidWindow(f"{name}: expected an instant with its offset, got {at!r}.", field=name)
    return at


def _opaque(params: Mapping[str, Any]) -> bool:
    marks = params.get("landmarks")
    return isinstance(marks, list | tuple) and any(isinstance(mark, str) and not _dated(mark) for mark in marks)


def _dated(mark: str) -> bool:
    try:
        return datetime.fromisoformat(mark).tzinfo is not None
    except ValueError:
        return False


def _compiles(asked: Asked) -> None:
    """Try the expression on a slice as they will be: a place that none of them has is told at the door."""
    like = {
        "time": slicing.of_time(0, timedelta(hours=1) // timedelta(microseconds=1)),
        "id": slicing.of_ids(0, 1),
        "landmark": Cut("landmark", "a", "b"),
    }
    try:
        expression.render(asked.expression, like[asked.dimension])
    except DoesNotCompile as wrong:
        raise errors.IngestInvalidExpression(f"expression: {wrong}.", field="expression") from None
