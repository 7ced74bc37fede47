"""The PostgreSQL that every peer is measured on, and what can be read from it.

PostgreSQL 18 with its default settings, so fsync and synchronous_commit are on, reached over a unix socket.
Every measurement starts from a clone of the peer's migrated, empty, analysed database, after a checkpoint;
WAL figures therefore include the full-page images that follow it, for all alike.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import LiteralString

import psutil
import psycopg
from psycopg import sql

from bench.store import Counters
from ferryman.app.embedded import Embedded

PROBES = 1000


class Server:
    """One PostgreSQL of our own in a directory of its own; nothing is left when it stops."""

    def __init__(self, directory: Path) -> None:
        self.embedded = Embedded(directory, keep=False)

    def __enter__(self) -> Server:
        self.embedded.start()
        self.admin = psycopg.connect(self.url("postgres"), autocommit=True)
        self.postmaster = psutil.Process(int(self.ask("select pg_read_file('postmaster.pid')").split()[0]))
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()
        self.embedded.stop()

    def url(self, database: str) -> str:
        return self.embedded.address(database)

    def connect(self, database: str) -> psycopg.Connection[tuple[object, ...]]:
        connection = psycopg.connect(self.url(database), autocommit=True)
        connection.prepare_threshold = 0
        return connection

    def execute(self, statement: str, *names: str) -> None:
        self.admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def ask(self, question: LiteralString, *values: str) -> str:
        """The one value that a query answers."""
        row = self.admin.execute(question, values).fetchone()
        assert row is not None
        return str(row[0])

    def show(self, setting: str) -> str:
        return self.ask("select current_setting(%s)", setting)

    def exists(self, database: str) -> bool:
        found = self.admin.execute("select from pg_database where datname = %s", (database,))
        return found.fetchone() is not None

    def create(self, database: str, *, template: str | None = None) -> None:
        """Make a fresh database, of the same content as its template, whatever was there before, and have it on disk."""
        self.drop(database)
        # Files are copied as they are: writing a large template anew, through the WAL, would take minutes.
        self.execute("create database {} template {} strategy file_copy", database, template or "template1")
        self.execute("checkpoint")

    def drop(self, database: str) -> None:
        self.execute("drop database if exists {} with (force)", database)

    def settle(self, database: str) -> None:
        """Leave a filled database as a quiet server would have it: statistics made, all on disk."""
        with self.connect(database) as connection:
            connection.execute("analyze")
        self.execute("checkpoint")

    def at_rest(self, database: str) -> bool:
        """Say whether every client's connection waits for its next statement, outside any transaction."""
        busy = """
            select count(*) from pg_stat_activity
            where datname = %s and backend_type = 'client backend' and state <> 'idle'"""
        return self.ask(busy, database) == "0"

    def listening(
        self, database: str, channels: Sequence[str], presence: str, *, count: int = 1
    ) -> AbstractContextManager[Callable[[], int]]:
        return listening(self.url(database), channels, presence, count=count)

    @contextmanager
    def counting(self, database: str, question: str) -> Iterator[Callable[[], int]]:
        """Lend a connection of its own that counts."""
        with self.connect(database) as connection:

            def count() -> int:
                row = connection.execute(question.encode()).fetchone()
                return int(str(row[0])) if row else 0

            yield count

    def disconnect(self, database: str) -> None:
        """Close every connection to a database; a backend reports its last counters as it ends."""
        others = "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = %s"
        while True:
            row = self.admin.execute(others, (database,)).fetchone()
            if row == (0,):
                return
            time.sleep(0.02)

    def counters(self, database: str) -> Counters:
        row = self.admin.execute(
            """
            select pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
                   (select sum(fsyncs) from pg_stat_io where object = 'wal'),
                   (select xact_commit + xact_rollback from pg_stat_database where datname = %s),
                   pg_database_size(%s)
            """,
            (database, database),
        ).fetchone()
        assert row is not None
        return Counters(*(int(value or 0) for value in row))

    def disk(self) -> str:
        """The kind of file system under the data; on one in memory a flush costs nothing."""
        data = self.show("data_directory")
        mounts = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
        return str(mounts[max((at for at in mounts if data.startswith(at)), key=len)])

    def trip(self) -> float:
        """Microseconds of a round trip that asks for nothing, the median of many."""
        return self._times("select 1")

    def commit(self) -> float:
        """Microseconds of a row that is inserted and committed by itself: a trip, and one flush."""
        self.admin.execute("create table public.probe (n integer)")
        try:
            return self._times("insert into public.probe values (1)")
        finally:
            self.admin.execute("drop table public.probe")

    def _times(self, statement: LiteralString) -> float:
        taken = []
        for _ in range(PROBES):
            begun = time.perf_counter()
            self.admin.execute(statement, prepare=True)
            taken.append(time.perf_counter() - begun)
        return 1e6 * statistics.median(taken)

    def cpu(self) -> float:
        """CPU seconds of all its processes, the ended ones included."""
        return processor_seconds(self.postmaster)

    def run_time(self) -> float:
        """CPU seconds of its living processes, to the nanosecond."""
        return run_time([self.postmaster, *self.postmaster.children(recursive=True)])


@contextmanager
def listening(url: str, channels: Sequence[str], presence: str, *, count: int = 1) -> Iterator[Callable[[], int]]:
    """Listen on connections that are read at once, as workers read theirs; lend how much was heard."""
    with contextlib.ExitStack() as ends:
        ears = [ends.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(count)]
        for ear in ears:
            for channel in channels:
                ear.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
            if presence:
                ear.execute(presence.encode())
        heard, (ended, end) = [0], os.pipe()
        thread = threading.Thread(target=_hear, args=(ears, ended, heard))
        thread.start()
        try:
            yield lambda: heard[0]
        finally:
            os.write(end, b"!")
            thread.join()
            os.close(end)
            os.close(ended)


def _hear(ears: Sequence[psycopg.Connection[tuple[object, ...]]], ended: int, heard: list[int]) -> None:
    """Read what comes until told to end; it costs nothing while nothing comes."""
    with selectors.DefaultSelector() as either:
        either.register(ended, selectors.EVENT_READ)
        for ear in ears:
            either.register(ear.fileno(), selectors.EVENT_READ, ear.pgconn)
        while True:
            for key, _ in either.select():
                if key.data is None:
                    return
                key.data.consume_input()
                while key.data.notifies():
                    heard[0] += 1


def strangers_seconds(server: Server) -> float:
    """CPU seconds used on this machine by programs that are neither ours (a Redis is our child) nor the server's."""
    times = psutil.cpu_times()
    everybody = sum(times) - times.idle - times.iowait - times.guest - times.guest_nice
    return float(everybody - processor_seconds(psutil.Process()) - server.cpu())


def run_time(processes: Iterable[psutil.Process]) -> float:
    """CPU seconds of the living threads of these, to the nanosecond: ticks of 10 ms are too coarse for who idles."""
    files = (file for process in processes for file in Path(f"/proc/{process.pid}/task").glob("*/schedstat"))
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def processor_seconds(root: psutil.Process) -> float:
    """CPU seconds of a process and its descendants, including those that it has already waited for."""
    times = root.cpu_times()
    total = times.user + times.system + times.children_user + times.children_system
    for child in root.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
