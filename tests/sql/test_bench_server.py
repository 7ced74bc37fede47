"""What measurements ask of their server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.server import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "data") as server:
        server.create("jobs")
        yield server


def test_a_filled_database_is_analysed_around_those_who_work_in_it(server: Server) -> None:
    with server.connect("jobs") as worker:
        worker.execute("create table job as select generate_series(1, 1000) as id")

        server.settle("jobs")

        [found] = worker.execute("select reltuples::int from pg_class where relname = 'job'").fetchall()
        assert found == (1000,)


def test_a_transaction_that_waits_for_its_client_is_not_at_rest(server: Server) -> None:
    with server.connect("jobs") as worker:
        assert server.at_rest("jobs")

        worker.autocommit = False
        worker.execute("select 1")
        assert not server.at_rest("jobs")

        worker.rollback()
        assert server.at_rest("jobs")


def test_what_rows_take_on_disk_is_counted(server: Server) -> None:
    before = server.counters("jobs")
    with server.connect("jobs") as client:
        client.execute("create table job as select repeat('x', 1000) as payload from generate_series(1, 1000)")

    assert 1e6 < (server.counters("jobs") - before).disk < 2e6
