"""`ferryman agent list`, `show`, `turns`, `timeline` and `cards`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from ferryman.agents.intake.timeline import Moment
from ferryman.agents.model import AgentRecord, TurnRecord
from ferryman.app.doctor import plain
from ferryman.cli import choices, spelling
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.words import says
from ferryman.kernel import errors, payload
from ferryman.tasks.rules.request import as_uuid

WIDTH = 40
SHOWN = 120


async def list_page(
    *,
    profile: Annotated[str | None, says("Of this profile only.")] = None,
    status: Annotated[choices.AgentStatus | None, says("With this status only.")] = None,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    after: Annotated[str, says("Go on after this agent: the last one of the page before.")] = "",
    options: Options = PLAIN,
) -> None:
    """List agents by name, and what they are doing."""
    async with options.app() as app:
        page = await app.agents.list(profile=profile, status=status, after=after, limit=limit)
    screen = options.screen
    if screen.json:
        screen.document({"agents": [agent_json(each) for each in page]})
        return
    rows = ((each.agent_id, each.profile, each.status, each.since_at, each.active_agent_turn_id) for each in page)
    screen.table(("agent", "profile", "status", "since", "turn"), rows)
    if len(page) == limit:
        screen.say(f"There may be more: --after {page[-1].agent_id}", style="dim")
    elif not page:
        screen.say("There are none.")


def agent_json(agent: AgentRecord) -> dict[str, Any]:
    """Return an agent for a program."""
    return {name: plain(value) for name, value in agent._asdict().items()}


def turn_json(turn: TurnRecord) -> dict[str, Any]:
    """Return a turn for a program."""
    return {name: plain(value) for name, value in turn._asdict().items()}


async def show(agent_id: Annotated[str, says("Its id.")], /, *, options: Options = PLAIN) -> None:
    """Show an agent, and its latest turns."""
    async with options.app() as app:
        agent = await app.agents.get(agent_id)
        latest = await app.agents.turns(agent_id, limit=10)
    screen = options.screen
    if screen.json:
        screen.document({"agent": agent_json(agent), "turns": [turn_json(each) for each in latest]})
        return
    screen.pairs([
        ("agent", agent.agent_id), ("profile", agent.profile), ("status", agent.status), ("since", agent.since_at),
        ("turn", agent.active_agent_turn_id), ("epoch", agent.turn_epoch), ("when busy", agent.when_busy),
        ("target", agent.worker_target), ("made for", agent.derived_from), ("tenant", agent.tenant),
        ("created", agent.created_at),
    ])  # fmt: skip
    screen.print("\nLatest turns", style="bold")
    _turns(screen, latest)


async def turns(
    agent_id: Annotated[str, says("The agent's id.")],
    /,
    *,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    before: Annotated[
        str | None, says("Go on before this turn, the last of the page before; or before a time.")
    ] = None,
    options: Options = PLAIN,
) -> None:
    """List an agent's turns, newest first."""
    edge = _edge(before)
    async with options.app() as app:
        await app.agents.get(agent_id)
        page = await app.agents.turns(agent_id, before=edge, limit=limit)
    if options.screen.json:
        options.screen.document({"turns": [turn_json(each) for each in page]})
        return
    _turns(options.screen, page)
    if len(page) == limit:
        options.screen.say(f"There may be more: --before {page[-1].id}", style="dim")
    elif not page:
        options.screen.say("There are none.")


def _edge(before: str | None) -> datetime | UUID | None:
    try:
        return None if before is None else as_uuid(before) or datetime.fromisoformat(before)
    except ValueError:
        told = f"--before: expected the id of a turn, or a time such as 2026-01-31T12:00Z, got {before!r}."
        raise errors.UsageInvalid(told) from None


async def cards(
    box: Annotated[str, says("The box's id: what a turn was given to read, or has written.")],
    /,
    *,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    after: Annotated[int, says("Go on after so many.")] = 0,
    options: Options = PLAIN,
) -> None:
    """Show the cards of a box, in order."""
    found = as_uuid(box)
    if found is None:
        raise errors.UsageInvalid(f"Expected the id of a box, got {box!r}.")
    async with options.app() as app:
        page = await app.agents.cards(found, after=after, limit=limit)
    screen = options.screen
    if screen.json:
        told = [{name: plain(value) for name, value in each._asdict().items()} for each in page]
        screen.document({"cards": [each | {"content": payload.decode(each["content"])} for each in told]})
        return
    rows = ((each.id, each.type, each.role, each.author_id, each.content[:SHOWN]) for each in page)
    screen.table(("card", "type", "role", "by", "content"), rows)
    if not page:
        screen.say("There are none.")


def _turns(screen: Screen, page: Sequence[TurnRecord]) -> None:
    rows = (
        (
            each.id,
            each.turn_status or each.head_status or each.message_status,
            each.created_at,
            _took(each),
            each.error_code,
        )
        for each in page
    )
    screen.table(("turn", "status", "created", "took", "code"), rows)


def _took(turn: TurnRecord) -> str:
    return "" if turn.ended_at is None else spelling.seconds((turn.ended_at - turn.created_at).total_seconds())


async def timeline(turn: Annotated[str, says("The turn's id.")], /, *, options: Options = PLAIN) -> None:
    """Draw a turn: its moves, steps and calls over time."""
    async with options.app() as app:
        found = await app.agents.turn(turn_id(turn))
        moments = await app.agents.timeline(found.id)
    screen = options.screen
    if screen.json:
        screen.document({"turn": turn_json(found), "timeline": [each.as_json() for each in moments]})
        return
    screen.table(("after", "took", "what", "status", ""), drawn(moments))


def drawn(moments: Sequence[Moment]) -> list[tuple[Any, ...]]:
    """Return the rows of a timeline, each with its bar."""
    if not moments:
        return []
    begun = moments[0].at
    whole = max(0.001, (max(each.until or each.at for each in moments) - begun).total_seconds())
    rows = []
    for each in moments:
        start = (each.at - begun).total_seconds()
        took = None if each.until is None else max(0.0, (each.until - each.at).total_seconds())
        left = min(WIDTH - 1, round(start / whole * WIDTH))
        bar = " " * left + ("·" if took is None else "█" * max(1, round(took / whole * WIDTH)))
        what = each.name if each.kind in ("state", "end") else f"{each.kind} {each.name}"
        rows.append(
            (f"+{spelling.seconds(start)}", "" if took is None else spelling.seconds(took), what, each.status, bar)
        )
    return rows


def turn_id(text: str) -> UUID:
    """Read the id of a turn."""
    found = as_uuid(text)
    if found is None:
        raise errors.UsageInvalid(f"Expected the id of a turn, got {text!r}.")
    return found
