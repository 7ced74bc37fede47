"""A small world in which all went well: every kind of act done once by the crew of chaos, on a database of its own.

What a checker says of it is nothing. A test spoils one thing in it, in a transaction that is rolled back or in its own copy of
the lines, and hears what the checker says then.
"""

from __future__ import annotations

import copy
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from chaos import acts, crew, history, roles, storm, terms
from chaos.checker.evidence import Connection, Evidence
from chaos.history import History
from ferryman.testing.trial import Trial, opened

Lines = list[dict[str, Any]]


@dataclass
class World:
    """Where it is, and what was written down in it."""

    url: str
    lines: Lines

    @contextmanager
    def scene(self) -> Iterator[Scene]:
        """Give a copy to spoil, of which nothing stays."""
        connection: Connection = psycopg.connect(self.url, row_factory=dict_row)
        try:
            # No trigger guards the rows: what is planted is what no move of the product would make.
            connection.execute("set session_replication_role = replica")
            yield Scene(
                connection, copy.deepcopy(self.lines), {"worker-0.0001": "the database cannot be used; coming back\n"}
            )
        finally:
            connection.rollback()
            connection.close()


@dataclass
class Scene:
    """What a test may spoil."""

    connection: Connection
    lines: Lines
    outputs: dict[str, str]

    def run(self, statement: str, *values: object) -> None:
        """Change rows; a change that meets none would show nothing."""
        assert self.connection.execute(statement.encode(), values).rowcount > 0, statement

    def unguard(self, table: str) -> None:
        """Let rows of a table be what its checks refuse."""
        for check in self.connection.execute(
            "select conname as name from pg_constraint where contype = 'c' and conrelid = %s::regclass",
            [f"ferryman.{table}"],
        ).fetchall():
            self.connection.execute(f"alter table ferryman.{table} drop constraint {check['name']}".encode())

    def one(self, question: str) -> dict[str, Any]:
        """Return the first row of an answer."""
        return self.connection.execute(question.encode()).fetchall()[0]

    def line(self, what: str, **having: object) -> dict[str, Any]:
        """Find the first line that says something."""
        return next(
            line for line in self.lines
            if line["what"] == what and all(line.get(key) == value for key, value in having.items())
        )  # fmt: skip

    def alike(self, first: dict[str, Any], **having: object) -> Lines:
        """Find all lines that say the same of the same: on a slow machine something may have been done in two claims."""
        subject = next((name for name in ("key", "task", "turn") if name in first), "what")
        same = {"what": first["what"], subject: first[subject], **having}
        return [line for line in self.lines if all(line.get(key) == value for key, value in same.items())]

    def seen(self) -> Evidence:
        """Give all of it to the checker."""
        return Evidence(self.lines, self.connection, self.outputs)


async def made(url: str, folder: Path) -> World:
    """Do one of each, wait for all of it, and look back."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in storm.TABLES:
            connection.execute(f"create table public.{table}".encode())
    told = History(folder / "world.0001.history")
    told.write("clock", wall=time.time(), lease=2.0)
    told.write("born", role="worker", doorbell="postgres", clock=0.0, pool=10)
    app = crew.build(url, told, doorbell="postgres", seed=7, pool=10)
    async with opened(app, url) as trial:
        schedule = await app.schedules.create(
            "tick", {"key": "tick"}, every=1, catch_up="all", max_retries=terms.RETRIES
        )
        await _act(trial, told)
        for _ in range(3):
            await trial.travel(seconds=1)
            await trial.run()
        await app.schedules.delete(schedule.id, reason="the run is over")
        while await roles.read_on(app, told):
            pass
    await roles.audit(app, told)
    told.write("died", who="world", child=os.getpid(), code=0)
    return World(url, history.gather(folder))


async def _act(trial: Trial, told: History) -> None:
    """Do an act of each kind; what is cancelled has children."""
    dice, memory = random.Random(7), roles.Memory(told, 0.0, 7)
    for number, kind in enumerate([*(kind for kind in acts.SHARES if kind != "cancel"), "shaky"]):
        act, arguments = (
            ("one", {"name": "shaky", "more": {}})
            if kind == "shaky"
            else acts.draw(dice, kind, recent=[], windows=0, load=1.0, lease=0.1)
        )
        await roles.act_until_done(trial.app, memory, f"world:{number}", act, arguments)
    await trial.run()
    spare = await roles.act_until_done(trial.app, memory, "world:spare", "one", {"name": "voyage", "more": {}})
    [task] = spare["tasks"].values()
    await roles.act_until_done(trial.app, memory, "world:cancel", "cancel", {"task": task})
