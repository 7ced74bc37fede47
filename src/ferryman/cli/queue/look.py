"""`ferryman queue list` and `show`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from ferryman.app.doctor import plain
from ferryman.cli import spelling
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.words import says
from ferryman.tasks.intake.queues import HOLDERS_MAX, Holder, Queue

COLUMNS = ("queue", "tenant", "ready", "running", "pending", "oldest", "slots", "rate", "depth", "weight", "state")
HOLDERS_SHOWN = 20


async def list_all(*, options: Options = PLAIN) -> None:
    """List every queue that was declared or has something live."""
    async with options.app() as app:
        queues = await app.queues.list()
        paused = await app.queues.paused_tasks()
    screen = options.screen
    if screen.json:
        screen.document(
            {"queues": [document(each) for each in queues], "paused_tasks": {k: plain(v) for k, v in paused.items()}}
        )
        return
    screen.table(COLUMNS, (row(each) for each in queues))
    if not queues:
        screen.say("There are none.")
    _tell_paused(screen, paused)


async def show(name: Annotated[str, says("The queue.")], /, *, options: Options = PLAIN) -> None:
    """Show a queue: what is agreed for it, what waits and runs, and who holds its slots."""
    async with options.app() as app:
        queues = await app.queues.rows(name)
        holders = await app.queues.holders(name)
    screen = options.screen
    if screen.json:
        screen.document({
            "queue": document(queues[0]),
            "tenants": [document(each) for each in queues[1:]],
            "others": _others(queues[0], holders),
            "holders": [{key: plain(value) for key, value in each._asdict().items()} for each in holders],
        })  # fmt: skip
        return
    tell(screen, queues)
    if holders:
        _tell_holders(screen, holders)
    if others := _others(queues[0], holders):
        screen.say(f"Tasks of other tenants hold {others} of its slots.", style="dim")


def _others(queue: Queue, holders: Sequence[Holder]) -> int:
    """Count the slots that tasks of other tenants hold; which these are is nobody else's affair."""
    return max(0, queue.held - len(holders)) if len(holders) < HOLDERS_MAX else 0


def document(queue: Queue) -> dict[str, Any]:
    """Return a queue for programs."""
    return {key: plain(value) for key, value in asdict(queue).items()}


def row(queue: Queue) -> tuple[Any, ...]:
    """Return a queue as it stands in a table."""
    return (
        queue.name, queue.tenant, queue.ready, queue.running, queue.pending, _ago(queue.oldest_seconds), _slots(queue),
        queue.rate, _depth(queue), queue.weight, "paused" if queue.paused_at else "",
    )  # fmt: skip


def tell(screen: Screen, queues: Sequence[Queue]) -> None:
    """Show one queue to a person: what is agreed for all, then for single tenants."""
    whole = queues[0]
    screen.pairs([
        ("queue", whole.name), ("paused since", whole.paused_at), ("ready", whole.ready), ("running", whole.running),
        ("pending", whole.pending), ("oldest ready", _ago(whole.oldest_seconds)), ("slots", _slots(whole)),
        ("slots of one key", whole.key_concurrency), ("rate", _rate(whole)), ("depth", _depth(whole)), ("weight", whole.weight),
    ])  # fmt: skip
    if queues[1:]:
        screen.print("\nTenants", style="bold")
        screen.table(
            ("tenant", "slots", "slots of one key", "rate", "depth", "state"),
            (
                (
                    each.tenant,
                    _slots(each),
                    each.key_concurrency,
                    each.rate,
                    _depth(each),
                    "paused" if each.paused_at else "",
                )
                for each in queues[1:]
            ),
        )


def _tell_holders(screen: Screen, holders: Sequence[Holder]) -> None:
    screen.print("\nSlots held", style="bold")
    screen.table(
        ("task", "tenant", "name", "key", "since", "leased until"),
        (
            (each.task_id, each.tenant, each.name, each.limit_key, each.started_at, each.leased_until)
            for each in holders[:HOLDERS_SHOWN]
        ),
    )
    if len(holders) > HOLDERS_SHOWN:
        screen.say(f"and {len(holders) - HOLDERS_SHOWN} more: --json lists them.", style="dim")


def _tell_paused(screen: Screen, paused: dict[str, datetime]) -> None:
    for name, since in paused.items():
        screen.print(f"Tasks of {name} are paused since {spelling.moment(since)}.")


def _ago(seconds: float | None) -> str | None:
    return None if seconds is None else spelling.seconds(seconds)


def _slots(queue: Queue) -> str | None:
    if queue.concurrency is not None:
        return f"{queue.held} of {queue.concurrency}"
    return str(queue.held) if queue.held else None


def _rate(queue: Queue) -> str | None:
    if queue.rate is None:
        return None
    later = f", the next in {spelling.seconds(queue.open_seconds)}" if queue.open_seconds else ""
    return f"{queue.rate}, {queue.burst} at one moment{later}"


def _depth(queue: Queue) -> str | None:
    return None if queue.max_depth is None else f"{queue.max_depth}, then {queue.at_limit}"
