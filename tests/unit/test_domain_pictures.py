"""Pictures of turns, batches, commands and plans: what stands where, and that no text of others becomes markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import pytest

from ferryman.agents.intake.timeline import Moment
from ferryman.agents.states import HEAD, MESSAGE, WAIT, TurnStatus
from ferryman.batches.intake.read import Tree
from ferryman.batches.model import BatchRecord, TaskRecord
from ferryman.batches.states import BATCH, BATCH_TASK
from ferryman.commands.intake.read import Story
from ferryman.commands.model import AsyncTaskRecord, CommandRecord
from ferryman.commands.states import ASYNC_TASK, COMMAND, AsyncTaskStatus, CommandStatus
from ferryman.dashboard.pictures import axis, colours, coverage, lanes, marks, rate, story, tree, turn
from ferryman.dashboard.pictures.lanes import Lane, Span
from ferryman.ingest import states as ingest
from ferryman.ingest.intake.survey import Extent, PaceRow, SliceRow
from ferryman.ingest.rules import keys
from ferryman.kernel.events import Event
from ferryman.kernel.machine import Machine
from ferryman.relays.states import DELIVERY, WEBHOOK

pytestmark = pytest.mark.contract("S5")

DAWN = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOSTILE = "<script>alert(1)</script>\"' onload=x"


def at(seconds: float) -> datetime:
    return DAWN + seconds * SECOND


def read(picture: str) -> ElementTree.Element:
    """Read a picture as a browser would: it is well formed, and has neither style nor script."""
    root = ElementTree.fromstring(picture)
    for each in root.iter():
        assert each.tag not in ("script", "style", "foreignObject")
        assert not [name for name in each.attrib if name == "style" or name.startswith("on")]
    return root


def texts(picture: str) -> list[str]:
    return ["".join(each.itertext()) for each in read(picture).iter("text")]


# Axes


def test_ticks_stand_at_round_places_and_inside() -> None:
    assert [tick.says for tick in axis.elapsed(timedelta(seconds=10), most=5)] == [
        "0",
        "2 s",
        "4 s",
        "6 s",
        "8 s",
        "10 s",
    ]
    assert [tick.says for tick in axis.elapsed(timedelta(milliseconds=90), most=5)][:3] == ["0", "20 ms", "40 ms"]
    assert [tick.says for tick in axis.elapsed(timedelta(days=9), most=3)] == ["0", "5 d"]
    days = axis.instants(DAWN + timedelta(hours=5), DAWN + timedelta(days=3, hours=5), most=3)
    assert [(round(tick.at, 3), tick.says) for tick in days] == [
        (0.264, "2026-01-02"), (0.597, "2026-01-03"), (0.931, "2026-01-04"),
    ]  # fmt: skip
    assert [tick.says for tick in axis.numbers(0, 2500, most=3)] == ["0", "1\u202f000", "2\u202f000"]
    for length in (0, 1e-6, 0.3, 59, 61, 3601, 86401, 1e9):
        ticks = axis.elapsed(timedelta(seconds=length), most=4)
        assert len(ticks) <= 6
        assert all(0 <= tick.at <= 1.000001 for tick in ticks)


def test_what_lies_outside_a_picture_is_drawn_at_its_edge() -> None:
    assert [marks.percent(share) for share in (-1, 0, 1 / 3, 1, 7)] == ["0%", "0%", "33.333%", "100%", "100%"]
    assert 'width="0.4%"' in marks.bar(0.5, 0.5, y=0, height=1, class_="")


# Lanes


def test_every_state_of_every_domain_has_a_colour() -> None:
    machines: list[Machine[Any]] = [HEAD, MESSAGE, WAIT, BATCH, BATCH_TASK, COMMAND, ASYNC_TASK, DELIVERY, WEBHOOK]
    machines += [ingest.PLAN, ingest.SLICE, ingest.TASK, ingest.RUN, ingest.BATCH]
    states = {str(each.value) for machine in machines for each in machine.states} | {each.value for each in TurnStatus}
    assert {state for state in states if colours.colour(state) == colours.GREY} == {"idle"}
    assert colours.colour("no such state") == colours.GREY


def test_a_bar_without_an_end_goes_on_until_now() -> None:
    shown = lanes.draw(
        [Lane("a", "blue", [Span(at(0), at(5), "green")]), Lane("b", "violet", [Span(at(5), None, "violet")])],
        now=at(10),
        says="both",
    )
    bars = [each for each in read(shown).iter("rect")]
    assert [(each.get("x"), each.get("width"), each.get("class")) for each in bars] == [
        ("0%", "50%", "fill-green"), ("50%", "50%", "fill-violet open"),
    ]  # fmt: skip
    assert lanes.draw([], now=at(0), says="none") == ""


def test_a_deadline_near_by_is_drawn_and_one_far_off_is_not() -> None:
    near = [Lane("a", "violet", [Span(at(0), None, "violet")], deadline=at(20))]
    far = [Lane("a", "violet", [Span(at(0), None, "violet")], deadline=at(3600))]
    assert lanes.extent(near, now=at(10)) == (at(0), at(20))
    assert lanes.extent(far, now=at(10)) == (at(0), at(10))
    assert [line.get("x1") for line in read(lanes.draw(near, now=at(10), says="")).iter("line")].count("100%") == 2
    assert "deadline" not in lanes.draw(far, now=at(10), says="")


def test_lines_of_a_tree_go_on_to_later_children_only() -> None:
    made = [Lane(str(depth), "grey", depth=depth) for depth in (0, 1, 2, 2, 1, 0)]
    assert lanes.rails(made) == [{1}, {1, 2}, {1, 2}, {1}, set(), set()]


def test_more_lines_than_anybody_can_follow_are_counted_and_not_drawn() -> None:
    many = [Lane(f"lane {n}", "green", [Span(at(n), at(n + 1), "green")]) for n in range(lanes.MOST + 7)]
    shown = texts(lanes.draw(many, now=at(0), says="many"))
    assert any(text.startswith(f"lane {lanes.MOST - 1}") for text in shown)
    assert any(text.startswith("7 morenot drawn") for text in shown)
    assert not any(text.startswith(f"lane {lanes.MOST}") for text in shown)
    whole = texts(lanes.draw(many[: lanes.MOST + 1], now=at(0), says="all"))
    assert any(text.startswith(f"lane {lanes.MOST}") for text in whole)


def test_names_of_others_stay_text() -> None:
    shown = lanes.draw(
        [Lane(HOSTILE, "green", [Span(at(0), at(1), "green", HOSTILE)], note=HOSTILE, href=f"/x/{HOSTILE}")],
        now=at(1),
        says=HOSTILE,
    )
    read(shown)
    assert "<script" not in shown
    assert any(HOSTILE in text for text in texts(shown))


# A turn


def moment(since: float, until: float | None, kind: str, name: str, status: str | None = None, **more: Any) -> Moment:
    return Moment(at(since), None if until is None else at(until), kind, name, status or name, more)


def test_a_turn_shows_its_states_one_after_another_and_what_it_waits_for() -> None:
    told = [
        moment(0, None, "state", "dispatched"), moment(1, None, "state", "running"),
        moment(1, 2, "step", "plan", "completed"), moment(2, None, "state", "suspended"),
        moment(2, 3, "call", "search", "success", tool_call_id="c1"),
        moment(2, None, "call", "ask_editor", "waiting", tool_call_id="c2"),
    ]  # fmt: skip
    rows = turn.rows(told, deadlines={"c2": at(9), "c1": at(9)})
    assert [(row.name, row.colour, row.deadline) for row in rows] == [
        ("turn", "violet", None), ("plan", "green", None), ("search", "green", None), ("ask_editor", "violet", at(9)),
    ]  # fmt: skip
    assert [(span.at, span.until, span.colour) for span in rows[0].spans] == [
        (at(0), at(1), "blue"), (at(1), at(2), "blue"), (at(2), None, "violet"),
    ]  # fmt: skip
    assert rows[3].spans[0].until is None
    read(turn.draw(told, now=at(5)))


def test_a_turn_that_ended_goes_on_no_more() -> None:
    told = [
        moment(0, None, "state", "running"), moment(1, None, "card", "thought", "completed"),
        moment(2, None, "call", "gone", "dropped"), moment(3, None, "end", "success"), moment(3, None, "state", "idle"),
    ]  # fmt: skip
    rows = turn.rows(told, deadlines={})
    assert [row.name for row in rows] == ["turn", "cards", "gone"]
    assert all(span.until is not None for row in rows for span in row.spans)
    assert lanes.extent(rows, now=at(100)) == (at(0), at(3))


# A batch


def batch(status: str = "running", *, number: int = 1, count: int = 2) -> BatchRecord:
    ended = None if status == "running" else at(9)
    return BatchRecord(
        UUID(int=number), "default", status, count, False, at(60), at(0), ended, None, None, None, None, 0, "{}"
    )


def task(index: int, status: str, *, since: float | None = 1, until: float | None = None) -> TaskRecord:
    return TaskRecord(
        UUID(int=100 + index), UUID(int=1), index, status, f"shop-{index}", "shop", 0, True, at(0),
        None if since is None else UUID(int=200 + index), 1, UUID(int=3), None, None, at(0),
        None if since is None else at(since), None if until is None else at(until), "{}",
    )  # fmt: skip


def test_a_batch_is_a_tree_of_tasks_and_of_the_batches_under_them() -> None:
    below = Tree(batch("success", number=2, count=1), [task(0, "success", until=4)])
    shown = Tree(batch(), [task(0, "dispatched"), task(1, "pending", since=None)], {UUID(int=100): [below]})
    rows = tree.rows(shown)
    assert [(row.depth, row.colour) for row in rows] == [
        (0, "blue"),
        (1, "blue"),
        (2, "green"),
        (3, "green"),
        (1, "violet"),
    ]
    assert [row.href for row in rows][1:4] == [
        f"/turns/{UUID(int=200)}", f"/batches/{UUID(int=2)}", f"/turns/{UUID(int=200)}",
    ]  # fmt: skip
    assert rows[0].note == "0/2 running"
    assert rows[0].deadline == at(60)
    assert rows[4].href is None
    assert len(read(tree.draw(shown, now=at(5))).findall("svg")) == 1 + 2 * len(rows)


def test_a_strip_shows_what_is_done_before_what_is_to_come() -> None:
    shown = tree.strip({"pending": 4, "failed": 1, "success": 5}, whole=10)
    bars = list(read(shown).iter("rect"))
    assert [(each.get("class"), each.get("x"), each.get("width")) for each in bars] == [
        ("fill-green", "0%", "50%"), ("fill-red", "50%", "10%"), ("fill-violet", "60%", "40%"),
    ]  # fmt: skip
    assert 'aria-label="5 success, 1 failed, 4 pending"' in shown
    assert "nothing yet" in tree.strip({}, whole=0)


# A command


def test_a_story_is_told_in_the_order_in_which_it_happened() -> None:
    command = CommandRecord(
        UUID(int=1), "default", "Character", "Character.Request", None, None, CommandStatus.PROCESSING, 2, 1, 0, 0, None,
        None, at(90), at(0), at(0), at(0), None, UUID(int=9), "{}",
    )  # fmt: skip

    def part(number: int, status: AsyncTaskStatus, **more: Any) -> AsyncTaskRecord:
        return AsyncTaskRecord(
            UUID(int=number), "default", "Design", "Design.Requested", command.id, status, 40.0, more.get("tries", 0), 3,
            None, UUID(int=50 + number), at(80), more.get("since"), more.get("until"), at(1), at(1), None, None, None,
        )  # fmt: skip

    fact = Event(1, at(3), "default", "fact", command.id, "Character.Proposed", None, None, None, None, None, None, 0)
    told = Story(
        command, [fact],
        [
            part(2, AsyncTaskStatus.COMPLETED, since=at(1), until=at(2), tries=2),
            part(3, AsyncTaskStatus.RUNNING, since=at(4)), part(4, AsyncTaskStatus.PENDING),
        ],
    )  # fmt: skip
    rows = story.rows(told)
    assert [(row.name, row.note) for row in rows] == [
        ("Character.Request", "processing"), ("Design", "completed, 2 retries"), ("Design", "pending 40 %"),
        ("Character.Proposed", "fact"), ("Design", "running 40 %"),
    ]  # fmt: skip
    assert rows[4].spans[-1].until is None
    assert rows[1].href == f"/tasks/{UUID(int=52)}"
    read(story.draw(told, now=at(6)))


# A plan


def piece(number: int, lower: int, upper: int, *, covered: int | None = None, **more: Any) -> SliceRow:
    given: dict[str, Any] = {field.name: None for field in fields(SliceRow)}
    given |= {
        "id": UUID(int=number), "slice_no": number, "status": "READY", "lower": lower, "upper": upper, "covered": covered,
        "spec": {"from": lower, "to": upper}, "depth": 0, "resliced": 0, "task_status": "QUEUED", "requests": 1, "items": 10,
        "errors": 0, "quarantined": 0,
    }  # fmt: skip
    return SliceRow(**given | more)


def extent(**more: Any) -> Extent:
    given: dict[str, Any] = {"lower": 0, "upper": 100, "kind": "ID", "position": 40, "slices": 3, "now": DAWN}
    return Extent(**given | more)


def test_a_window_shows_what_is_covered_under_way_and_missing() -> None:
    slices = [
        piece(0, 0, 40, task_status="SUCCEEDED", quarantined=2), piece(1, 40, 60, covered=50, task_status="EXECUTING"),
        piece(2, 60, 80, task_status="FAILED", resliced=2), piece(3, 60, 70, task_status="FAILED"),
    ]  # fmt: skip
    found = coverage.blocks(slices)
    assert [(each.lower, each.upper, each.covered) for each in found] == [(0, 40, 40), (40, 60, 50), (60, 70, 60)]
    assert coverage.gaps(found, lower=0, upper=100) == [(70, 100)]
    shown = coverage.draw(extent(), slices)
    bars = {(each.get("class"), each.get("x"), each.get("width")) for each in read(shown).iter("rect")}
    assert bars >= {
        ("gap", "0%", "100%"), ("fill-green", "0%", "40%"), ("block pale-blue", "40%", "20%"), ("fill-blue", "40%", "10%"),
        ("block pale-red", "60%", "10%"),
    }  # fmt: skip
    assert not [name for name, _, _ in bars if name == "fill-red"]
    assert [each.get("x1") for each in read(shown).iter("line") if each.get("class") == "cursor"] == ["40%"]
    assert "cursor at 40" in texts(shown)
    assert len([each for each in read(shown).iter("circle")]) == 1
    assert "50% of the window is covered" in shown


def test_a_window_of_time_is_spelled_in_time_and_one_without_order_in_equal_blocks() -> None:
    lower, upper = keys.number(DAWN), keys.number(DAWN + timedelta(hours=4))
    timed = coverage.draw(extent(lower=lower, upper=upper, kind="TIME", position=lower), [piece(0, lower, upper)])
    assert [text for text in texts(timed) if "cursor" not in text] == [
        "01-01 00:00",
        "01:00",
        "02:00",
        "03:00",
        "04:00",
    ]
    bare = [
        replace(piece(n, 0, 1, task_status=state), lower=None, upper=None)
        for n, state in enumerate(("SUCCEEDED", "QUEUED"))
    ]
    shown = coverage.draw(extent(lower=None, upper=None, position=None), bare)
    assert ("fill-green", "50%") in {(each.get("class"), each.get("width")) for each in read(shown).iter("rect")}
    read(coverage.draw(extent(lower=None, upper=None, position=None), []))


def test_a_thousand_alike_slices_are_drawn_as_one() -> None:
    many = [
        piece(n, n, n + 1, task_status="SUCCEEDED" if n < 600 else "QUEUED", quarantined=n == 3) for n in range(1000)
    ]
    drawn = coverage.merged(coverage.blocks(many))
    assert [(each.lower, each.upper, each.covered, each.quarantined) for each in drawn] == [
        (0, 600, 600, 1), (600, 1000, 600, 0),
    ]  # fmt: skip


def paces(*given: tuple[int, int, float | None]) -> Sequence[PaceRow]:
    return [PaceRow(at(2 * n), 2.0, asked, refused, asked * 10, rate) for n, (asked, refused, rate) in enumerate(given)]


def test_a_rate_is_drawn_under_a_round_ceiling_with_what_was_refused() -> None:
    rows = paces((14, 0, 8.0), (6, 2, 4.0), (8, 0, 4.5))
    assert rate.ceiling(rows) == 8
    assert rate.ceiling(paces((460, 0, None))) == 250
    assert rate.ceiling(paces((0, 0, 0.1))) == pytest.approx(0.1)
    path = rate.curve(rows, whole=6.0, top=10.0)
    assert path == "M0.0 22.0V22.0H333.3H333.3V66.0H666.7H666.7V60.5H1000.0"
    shown = rate.draw(rows)
    classes = [each.get("class") for each in read(shown).iter("rect")]
    assert (classes.count("fill-blue"), classes.count("fill-red")) == (3, 1)
    assert "28 requests, 2 refused as too many, 4.5 a second allowed at the end" in shown
    assert rate.draw([]) == ""
    assert "allowed" not in rate.draw(paces((1, 0, None)))


def test_a_slice_of_others_words_stays_text() -> None:
    shown = coverage.draw(extent(), [piece(0, 0, 100, spec={"from": HOSTILE, "to": 1}, error_code=HOSTILE)])
    read(shown)
    assert not re.search(r"<script", shown)
