"""`ferryman events`: the log as it grows.

Read from a place that is kept here, so that a row which commits late is not skipped (K10). `--after` begins behind an event
that was seen before; if the log does not have that event, a gap says so and where it resumes. It ends when the reader of a pipe
has gone, also while nothing happens.
"""

from __future__ import annotations

import asyncio
import select
import sys
from typing import Annotated
from uuid import UUID

from ferryman.app.ferryman import Ferryman
from ferryman.cli import exits, spelling
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.words import command, flag, says
from ferryman.kernel import errors, resume
from ferryman.kernel import events as log
from ferryman.kernel.event_id import EventId
from ferryman.kernel.resume import Gap, GapReason, Position
from ferryman.kernel.timed import timed
from ferryman.tasks.rules.envelope import data, envelope

PAGE = 500
LAST = 20
LOOK_SECONDS = 0.5
# Rings that come with a new row in the log.
TOPICS = ("ready", "due", "done", "cancel")


async def events(
    *,
    follow: Annotated[bool, flag("Go on as things happen, until Ctrl-C.")] = False,
    task: Annotated[str | None, says("Of one task only: its id or task_id.")] = None,
    after: Annotated[
        str | None, says("Begin after this event, such as evt_1200-654c08dd3a1c0, or after this number.")
    ] = None,
    last: Annotated[int | None, says("Begin about this many events before the end (20; 0 with --follow).")] = None,
    all_tenants: Annotated[bool, flag("Of all tenants, not only of one.")] = False,
    options: Options = PLAIN,
) -> int:
    """Show what happens, as it happens: one line an event; with --json the envelope of each.

    Nothing is skipped: a transaction that commits late delays what comes after it. Goes on after an event with --after. If
    the log does not have that event, a gap is shown first: on stderr, with --json as a line of type "gap".
    """
    if after is not None and last is not None:
        raise errors.UsageInvalid("--after and --last both say where to begin; give one.")
    if last is not None and last < 0:
        raise errors.UsageInvalid(f"--last: expected a number from 0 on, got {last}.")
    screen = options.screen
    async with options.app() as app:
        subject = None if task is None else (await app.tasks.record(task)).id
        tenant = None if all_tenants else app.settings.tenant
        begin = await _begin(app, after=after, last=last, follow=follow, alone=subject is not None)
        try:
            await _tail(app, screen, begin, subject=subject, tenant=tenant, follow=follow)
        except asyncio.CancelledError:
            return exits.OK  # Ctrl-C is how one stops following
    return exits.OK


async def _begin(app: Ferryman, *, after: str | None, last: int | None, follow: bool, alone: bool) -> Position:
    if after is not None:
        seen = EventId.parse(after)
        if seen is None:
            raise errors.UsageInvalid(f"--after: expected an event such as evt_1200, got {after!r}.")
        return Position.after(seen)
    if last is None:
        if alone:
            return Position.after(EventId(0))
        last = 0 if follow else LAST
    async with app.database.session() as tx:
        number = max(0, (await log.latest(tx)).last_id - last)
        return Position(log.Place(number), await resume.last(tx, number, after=EventId(0)))


async def _tail(
    app: Ferryman, screen: Screen, position: Position, *, subject: UUID | None, tenant: str | None, follow: bool
) -> None:
    rung = asyncio.Event()
    hushes = [app.doorbell.listen(topic, lambda _hints: rung.set()) for topic in TOPICS]
    try:
        while True:
            rung.clear()
            async with app.database.transaction() as tx:
                found, position, gap = await resume.tail(tx, position, tenant=tenant, subject=subject, limit=PAGE)
            if gap is not None:
                _show_gap(screen, gap)
            for event in found:
                _show(screen, event)
            if _unread():
                return
            if not found:
                # A marked window that is not closed yet still holds something to come.
                if not follow and not position.place.marked:
                    return
                await _rest(rung)
    finally:
        for hush in hushes:
            hush()


def _show_gap(screen: Screen, gap: Gap) -> None:
    first, last, goes_on = f"evt_{gap.first}", f"evt_{gap.last}", gap.resume.name
    if screen.json:
        screen.line({"type": "gap", "from": first, "to": last, "reason": gap.reason.value, "resume": goes_on})
        return
    if gap.reason is GapReason.DROPPED:
        why = f"{first} to {last} are not kept any more (log.retention says for how long)."
    elif gap.reason is GapReason.BEYOND_END:
        why = f"{last} has not happened here: the log ends before it."
    else:
        why = f"{last} is another event here: the log went back after a failover or a restore."
    screen.say(f"A gap: {why} Resuming after {goes_on}.", style="yellow")


async def _rest(rung: asyncio.Event) -> None:
    try:
        await timed(rung.wait(), LOOK_SECONDS)
    except TimeoutError:
        return


def _show(screen: Screen, event: log.Event) -> None:
    if screen.json:
        screen.line(envelope(event))
        return
    move = told(event)
    why = ": ".join(part for part in (event.reason_code, event.reason_message) if part)
    parts = (
        spelling.moment(event.at, precise=True),
        event.event_id,
        event.kind,
        event.subject_name or str(event.subject),
        move,
    )
    tail = ("" if event.attempt is None else f"  attempt {event.attempt}") + (
        f"  {' '.join(why.split())}" if why else ""
    )
    sys.stdout.write(spelling.clean("  ".join(parts) + tail) + "\n")
    sys.stdout.flush()


def told(event: log.Event) -> str:
    """Return what happened, in a few words."""
    if event.from_state:
        return f"{event.from_state} -> {event.to_state}"
    if event.to_state:
        return f"created {event.to_state}"
    said = data(event)
    if "changed" in said:
        return "changed"
    lost = ", ".join(f"{said[word]} {word}" for word in ("missed", "skipped") if said.get(word))
    return f"fired {len(said.get('fire_times', ()))}" + (f" ({lost})" if lost else "")


def _unread() -> bool:
    """Say whether the other end of our pipe has been closed."""
    look = select.poll()
    look.register(sys.stdout.fileno(), 0)
    return any(what & (select.POLLERR | select.POLLHUP) for _, what in look.poll(0))


program = command("events", events)
