"""Workers of a benchmark have done jobs before the clock begins, and do nothing until then."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from bench import measure
from bench.measure import await_ends, await_starts, created, drain_filled
from bench.server import Server
from bench.stage import Stage, read_card

WITHIN = 60.0
JOBS = 50


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    place = tmp_path_factory.mktemp("stage")
    with Server(place / "data") as server:
        yield Stage("ferryman", server, place, scale=0.01, card=read_card("ferryman"), store=server)


def test_a_warmed_worker_begins_nothing_while_it_is_stopped(stage: Stage) -> None:
    stage.fresh()
    with stage.warmed(1) as (crew, warm):
        await_ends(stage, warm, time.monotonic() + WITHIN)

        with stage.stopped(crew):
            stage.client("fill", JOBS)
            assert stage.marks.handled() == warm

        await_starts(stage, JOBS, time.monotonic() + WITHIN)
        await_ends(stage, warm + JOBS, time.monotonic() + WITHIN)


def test_creates_are_heard_by_who_listens(stage: Stage) -> None:
    figures = created(stage, "single", "single_heard", heard=True)

    assert figures["single_heard"] > 0
    assert figures["disk_single_heard"] > 0


def test_a_second_drain_of_a_database_waits_for_its_own_completions(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.fresh()
    drain_filled(stage, 1, JOBS)
    stage.clear()
    awaited: list[int] = []

    def noting(stage: Stage, count: int, until: float) -> float:
        awaited.append(count)
        return await_ends(stage, count, until)

    monkeypatch.setattr(measure, "await_ends", noting)
    drain_filled(stage, 1, JOBS)

    with stage.store.counting(stage.database, stage.card.done) as ask:
        assert awaited[-1] == ask()
