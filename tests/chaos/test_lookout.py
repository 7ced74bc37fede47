"""R3: whom the lookout of a run excuses."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from chaos.lookout import JUDGED_LEASES, LINE, OVERDUE, Lookout
from chaos.sea import Sea
from chaos.terms import INTERVAL_OF_LEASE

LEASE = 2.0


class Late:
    """A database in which somebody watches, and two rows are late."""

    answers = True

    def ask(self, question: str, *values: object) -> list[dict[str, Any]]:
        if question != OVERDUE:
            return [{"ticked": True}]
        told = {"domain": "tasks", "state": "running", "rule": "W13"}
        return [{"late": [{**told, "id": id} for id in ("held", "free")]}] if self.answers else []


class Fleet:
    """Processes of which one watches."""

    slots = ()

    def watched(self) -> bool:
        return True


class Told:
    """A history that nobody reads."""

    def write(self, what: str, **more: object) -> None:
        """Forget it."""


@pytest.mark.contract("R3")
def test_what_a_stranger_holds_is_not_late_until_some_leases_after_it_was_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("chaos.lookout.time.monotonic", lambda: now[0])
    lookout = Lookout(Late(), Fleet(), Told(), lease=LEASE, folder=tmp_path)  # type: ignore[arg-type]

    def late(at: float) -> int:
        now[0], lookout.seen.overdue = at, 0
        lookout._look(at)
        return lookout.seen.overdue

    lookout.excuse_rows(9, ["held"])
    assert late(110.0) == 1
    lookout.judge_rows(9)
    assert late(110.0 + JUDGED_LEASES * LEASE - 0.1) == 1
    assert late(110.0 + JUDGED_LEASES * LEASE) == 2


@pytest.mark.contract("R3", "K24")
def test_only_an_outage_of_all_who_watch_excuses_what_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two short lives nobody watches for a moment, and nothing may be late all the same."""
    now = [100.0]
    monkeypatch.setattr("chaos.lookout.time.monotonic", lambda: now[0])
    fleet: Any = Fleet()
    monkeypatch.setattr(Lookout, "_measure", lambda _self: None)
    lookout = Lookout(Late(), fleet, Told(), lease=LEASE, folder=tmp_path)  # type: ignore[arg-type]
    silent = LEASE * INTERVAL_OF_LEASE * 3

    def found(at: float, *, watched: bool) -> int:
        fleet.watched = lambda: watched
        lookout.seen.overdue = 0
        lookout.step(at)
        return lookout.seen.overdue

    assert found(110.0, watched=True) == 2
    assert found(111.0 + silent - 1.1, watched=False) == 2
    assert found(111.0 + silent, watched=False) == 0
    assert found(113.0 + silent, watched=True) == 0


@pytest.mark.contract("R3")
def test_a_look_that_is_not_answered_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.lookout.time.monotonic", lambda: 100.0)
    sea: Any = Late()
    lookout = Lookout(sea, Fleet(), Told(), lease=LEASE, folder=tmp_path)  # type: ignore[arg-type]

    sea.answers = False
    lookout._look(110.0)
    assert lookout.seen.looks == 0

    sea.answers = True
    lookout._look(111.0)
    assert (lookout.seen.looks, lookout.seen.overdue) == (1, 2)


@pytest.mark.contract("R3")
async def test_that_nothing_is_late_is_an_answer(database_url: str) -> None:
    sea = Sea(Path())
    sea.url = database_url

    assert sea.ask(OVERDUE) == [{"late": []}]

    sea.url = f"{database_url}&port=1"
    assert sea.ask(OVERDUE) == []


@pytest.mark.contract("R3")
def test_a_look_at_the_line_does_not_read_every_task_there_ever_was(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("set enable_seqscan = off")
        plan = "\n".join(row[0] for row in connection.execute(f"explain {LINE}".encode()))

    assert "Index Scan" in plan
    assert "Seq Scan" not in plan
