"""`ferryman ingest status`, `blackbox`, `quarantine` and `replay`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from ferryman.cli import exits, spelling
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import says
from ferryman.ingest.model import Progress, Replayed
from ferryman.ingest.rules import keys
from ferryman.kernel import errors
from ferryman.tasks.rules.request import as_uuid

WIDTH = 20


async def status(
    plan: Annotated[str | None, says("Id of a plan; else the newest ones.")] = None,
    /,
    *,
    source: Annotated[str | None, says("Of this source only.")] = None,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 20,
    before: Annotated[str | None, says("Go on before this plan: the last one of the page before.")] = None,
    options: Options = PLAIN,
) -> None:
    """Show how far plans are: the share of the window, records a second, requests, records, errors, estimated end."""
    async with options.app() as app:
        edge = None if before is None else _id(before)
        one = None if plan is None else _id(plan)
        shown(await app.ingest.status(one, source=source, before=edge, limit=limit), options)


def shown(found: Sequence[Progress], options: Options) -> None:
    """Show how far plans are."""
    screen = options.screen
    if screen.json:
        screen.document({"plans": [each.as_json() for each in found]})
        return
    if not found:
        screen.say("There are no plans.")
        return
    columns = (
        "plan",
        "source",
        "operation",
        "covered",
        "",
        "slices",
        "records",
        "requests",
        "errors",
        "rate",
        "ends in",
    )
    screen.table(columns, (_row(each) for each in found))


def bar(share: float) -> str:
    """Return how much of a window is covered, as people see it."""
    full = int(share * WIDTH)
    return "█" * full + "░" * (WIDTH - full)


def _row(each: Progress) -> tuple[Any, ...]:
    rate = "" if each.rate is None or each.over else f"{each.rate:.0f}/s"
    if each.gate is not None:
        rate += f" (gate {each.gate:g}/s)"
    if each.shut_until is not None:
        rate = f"breaker open until {spelling.moment(each.shut_until)}"
    ends = "over" if each.over else "" if each.ends_in is None else spelling.seconds(each.ends_in)
    wrong = f"{each.errors}" + (f" + {each.quarantined} aside" if each.quarantined else "")
    return (
        each.id, f"{each.source}/{each.endpoint}", each.operation, bar(each.share), f"{each.share:.0%}",
        f"{each.slices_done}/{each.slices}", each.items, each.requests, wrong if wrong != "0" else "", rate, ends,
    )  # fmt: skip


async def blackbox(
    id: Annotated[str, says("Id of a run, a task or a plan.")],
    /,
    *,
    options: Options = PLAIN,
) -> None:
    """Rebuild what happened: trigger, slice, expression, every batch, what the gate said, how the cursor moved."""
    async with options.app() as app:
        runs = await app.ingest.blackbox(_id(id))
    screen = options.screen
    if screen.json:
        screen.document({"runs": runs})
        return
    for run in runs:
        _box(run, options)


def _box(run: dict[str, Any], options: Options) -> None:
    screen = options.screen
    spec = run["spec"]
    screen.print(f"run {run['run_id']}  attempt {run['attempt']}  {run['status']}", style="bold")
    screen.pairs([
        ("trigger", f"{run['trigger_type']} {run['job']} at {run['fire_time']}"),
        ("plan", f"{run['plan_id']}  {run['source']}/{run['endpoint']} {run['operation']}"),
        ("slice", f"{run['slice_no']}: {spec['dimension']} {spec['from']} to {spec['to']}  {run['slice_signature_hash'][:12]}"),
        ("task", f"{run['task_id']}  {run['task_status']}  epoch {run['epoch']}, leased {run['lease_count']} times"),
        ("expression", f"{run['expr_hash'][:12]}  {run['expression'] or ''}"),
        ("error", run["error_code"] and f"{run['error_code']}: {run['error_reason']}"),
        ("decision", run["decision"]),
        ("resliced by", ", ".join(run["resliced_by"])),
        ("stats", "  ".join(f"{name} {value}" for name, value in run["stats"].items())),
    ])  # fmt: skip
    columns = ("batch", "state", "from", "to", "records", "requests", "http", "gate", "error")
    screen.table(columns, (_batch(each) for each in run["batches"]))
    timed = spec["dimension"] == "time"
    for event in run["cursor_events"]:
        begin, end = (_place(event[name], timed=timed) for name in ("from", "to"))
        screen.print(f"cursor {event['kind']} {begin} to {end} at {event['at']}")


def _batch(each: dict[str, Any]) -> tuple[Any, ...]:
    stats = each["stats"]
    gate = stats.get("gate", {})
    waited = f"{gate.get('decision', '')} {gate['waitMs']} ms" if gate.get("waitMs") else gate.get("decision", "")
    http = " ".join("-" if code is None else str(code) for code in stats.get("http", ()))
    return (
        each["batch_no"], each["status"], each["before"], each["after"] or "", each["records"], each["requests"], http, waited,
        each["error"] or "",
    )  # fmt: skip


async def quarantine(
    source: Annotated[str, says("Name of the source.")],
    /,
    *,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    options: Options = PLAIN,
) -> None:
    """Show the records that could not be taken, newest first, each with the reason."""
    async with options.app() as app:
        found = await app.ingest.quarantine(source, limit=limit)
    screen = options.screen
    if screen.json:
        screen.document({"quarantine": found})
        return
    if not found:
        screen.say("There are none.")
        return
    columns = ("at", "endpoint", "reason", "record")
    screen.table(columns, ((each["at"], each["endpoint"], each["reason"], str(each["item"])[:120]) for each in found))


async def replay(
    source: Annotated[str | None, says("Of this source only.")] = None,
    /,
    *,
    options: Options = PLAIN,
) -> None:
    """Replay the events of cursors, and tell whether each stands where they lead; exit with 1 if one does not."""
    async with options.app() as app:
        found = await app.ingest.replay(source)
    screen = options.screen
    if screen.json:
        screen.document({"cursors": [told(each) for each in found]})
    elif not found:
        screen.say("There are no cursors.")
    else:
        columns = ("cursor", "stands at", "events", "lead to", "")
        screen.table(columns, (_standing(each) for each in found))
    if not all(each.agrees for each in found):
        raise SystemExit(exits.FAILED)


def place(cursor: Replayed, at: int | None) -> str:
    """Return a position as people read it."""
    return _place(at, timed=cursor.kind == "TIME")


def _place(at: int | None, *, timed: bool) -> str:
    if at is None:
        return "nowhere"
    return keys.instant(keys.moment(at)) if timed else str(at)


def told(each: Replayed) -> dict[str, Any]:
    """Return a cursor for a program."""
    return {
        "id": str(each.id),
        "name": each.name,
        "position": place(each, each.position),
        "replayed": place(each, each.replayed),
        "agrees": each.agrees,
        "events": len(each.events),
    }


def _standing(each: Replayed) -> tuple[Any, ...]:
    verdict = "good" if each.agrees else "bad"
    return each.name, place(each, each.position), len(each.events), place(each, each.replayed), verdict


def _id(text: str) -> UUID:
    found = as_uuid(text)
    if found is None:
        raise errors.UsageInvalid(f"Expected an id, got {text!r}.")
    return found
