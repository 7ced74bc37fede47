"""The PostgreSQL of a run: it waits for its disk, is killed and started again, and is looked at by plain SQL."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from chaos.checker.evidence import Connection
from ferryman.app.embedded import Embedded

# Room for everybody: who finds none waits, and so would whoever looks.
ROOM = {"max_connections": "400"}
# Whoever looks does not wait for a table that is locked, by ourselves perhaps.
LOOK_PATIENCE = "-c lock_timeout=300ms"
BAR_PATIENCE = "-c lock_timeout=2s"
# What ends are owed to, or many must lock to go on. Each names what it holds by the ids that the log and the histories know.
GRIPS = {
    "parents": "select id::text as ids from ferryman.tasks where finished_at is null and id in"
    " (select callback_ref::uuid from ferryman.tasks where callback = 'child' and finished_at is null)",
    "heads": "select id::text || ' ' || active_agent_turn_id::text as ids from ferryman.agent_state_head"
    " where active_agent_turn_id is not null",
    "batches": "select id::text as ids from ferryman.pmo_batches where finished_at is null",
    "commands": "select id::text as ids from ferryman.command_inbox where finished_at is null",
    "windows": "select id::text as ids from ferryman.ingest_task where finished_at is null",
    "schedules": "select id::text as ids from ferryman.schedules",
}
BARS = ("tasks", "tasks", "agent_state_head", "ingest_task")
ALL = 0.15  # of the cuts: a hundred connections are made anew then, which takes the machine a second or two


class Sea:
    """One server, and connections that nobody else uses."""

    def __init__(self, folder: Path) -> None:
        """Choose where its files are."""
        self._folder = folder
        self._shares: list[Embedded] = []
        self._data = Path()
        self._held: list[tuple[float, int, Connection]] = []
        self.url = ""

    def begin(self) -> None:
        """Start it for the first time."""
        self.start()
        with self.connect() as connection:
            [row] = connection.execute("select current_setting('data_directory') as place").fetchall()
            self._data = Path(row["place"])

    def start(self) -> None:
        """Start it, and return when it answers."""
        share = Embedded(self._folder, keep=False, settings=ROOM)
        self.url = share.start()
        self._shares.append(share)

    @contextlib.contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a connection of our own, each statement by itself."""
        connection: Connection = psycopg.connect(
            self.url, autocommit=True, row_factory=dict_row, application_name="chaos", connect_timeout=5,
            options=LOOK_PATIENCE,
        )  # fmt: skip
        try:
            yield connection
        finally:
            connection.close()

    def ask(self, question: str, *values: object) -> list[dict[str, Any]]:
        """Return what a question is answered; nothing while the database is away, or a table is locked."""
        try:
            with self.connect() as connection:
                return connection.execute(question.encode(), values).fetchall()
        except psycopg.OperationalError:
            return []

    def kill(self) -> int:
        """SIGKILL to the postmaster: its children notice and go. Strangers hold nothing then, and are to be let go."""
        pid = int((self._data / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.005)
        return pid

    def crash(self, dice: random.Random) -> int | None:
        """SIGKILL to one backend of the product: the postmaster throws everybody out and recovers."""
        found = self._backends()
        if not found:
            return None
        pid = dice.choice(found)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return pid
        return None

    def cut(self, dice: random.Random) -> int:
        """End connections of the product: a few, seldom all, which takes everybody seconds to make up for; say how many."""
        found = self._backends()
        ended = found if dice.random() < ALL else dice.sample(found, min(dice.randint(1, 3), len(found)))
        told = self.ask("select pg_terminate_backend(pid) as done from unnest(%s::int[]) as pid", list(ended))
        return sum(bool(row["done"]) for row in told)

    def _backends(self) -> Sequence[int]:
        rows = self.ask("select pid from pg_stat_activity where application_name like 'ferryman%%' order by pid")
        return [row["pid"] for row in rows]

    def hold(self, until: float) -> tuple[int, list[str]]:
        """Keep a transaction open, with locks on rows of live tasks; say whose it is, and which they are."""
        live = "select id::text as ids from ferryman.tasks where finished_at is null order by id"
        return self._keep(until, f"{live} limit 20 for update skip locked", LOOK_PATIENCE)

    def grip(self, kind: str, until: float) -> tuple[int, list[str]]:
        """Keep a transaction open, with locks on a few rows that others must lock to go on."""
        return self._keep(until, f"{GRIPS[kind]} order by id limit 5 for update skip locked", LOOK_PATIENCE)

    def bar(self, table: str, until: float) -> int:
        """Keep a transaction open that has a table to itself; say whose it is."""
        stranger, _ = self._keep(until, f"lock table ferryman.{table} in access exclusive mode", BAR_PATIENCE)
        return stranger

    def _keep(self, until: float, statement: str, patience: str) -> tuple[int, list[str]]:
        connection: Connection = psycopg.connect(
            self.url, row_factory=dict_row, application_name="chaos", connect_timeout=5, options=patience
        )
        try:
            locking = connection.execute(statement.encode())
            rows = locking.fetchall() if locking.description else []
        except psycopg.Error:
            connection.close()
            raise
        stranger = connection.info.backend_pid
        self._held.append((until, stranger, connection))
        return stranger, [id for row in rows for id in row["ids"].split()]

    def release(self, now: float) -> list[int]:
        """Let go of what was held long enough; say who held it."""
        over = [each for each in self._held if each[0] <= now]
        for held in over:
            self._held.remove(held)
            with contextlib.suppress(psycopg.Error):
                held[2].rollback()
            held[2].close()
        return [stranger for _, stranger, _ in over]

    def end(self) -> None:
        """Stop it and forget its data."""
        self.release(float("inf"))
        for share in self._shares:
            share.stop()
