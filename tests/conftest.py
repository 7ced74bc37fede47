"""A real PostgreSQL for every test: one server per worker of pytest-xdist, one fresh database per test."""

import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from xdist.scheduler import LoadScopeScheduling

from ferryman.app import forks, messages
from ferryman.app.wiring import opened
from ferryman.kernel import locks
from ferryman.kernel.pool import Database, Session, terms
from ferryman.testing import Cluster

# A shell that starts us in the background has us ignore interrupts, and so would the processes that we start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What somebody asks of their own terminal is not asked of what tests read.
for asked in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(asked, None)

# How fast a machine makes examples proves nothing.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

ENDLESS = timedelta(minutes=10)

# Tests that share what takes seconds to make: a browser, a run of pytest, a server of their own.
TOGETHER = (
    "tests/browser/",
    "tests/chaos/test_checker.py",
    "tests/kernel/test_full_queue.py",
    "tests/sql/test_bench_stage.py",
    "tests/testing/test_plugin.py",
)


# Collections of garbage took 6 % of the processor at Python's own threshold of 700 objects.
GARBAGE = (20_000, 20, 20)

# Tests that mostly wait, for a lease to end or for a process.
WAITING = ("tests/crash/", "tests/ingest/test_crash.py")


class _Apart(LoadScopeScheduling):  # type: ignore[misc]  # it comes without types
    """Give every test to whoever is free, but those that share something dear to one process: others would make it again.

    Half of the processes begin with what mostly waits, and the others have the processor meanwhile.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        waits = self.nodes.index(node) % 2 == 1
        first = next((unit for unit in self.workqueue if unit.startswith(WAITING) == waits), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Share out the tests our way."""
    return _Apart(config, log)


def pytest_collection_finish() -> None:
    """Freeze what was imported and collected: it stays to the end, and is most of what there is. Collect garbage less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let nothing be collected while a failure is told.

    What a failed test left behind may say something as it goes, and its trace is taken apart by the parser that is at work on
    the test's own at that moment: Python 3.11 breaks off then, and the failure with it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    """A command that ran in this process has hushed the library; the next test hears it again."""
    yield
    logging.getLogger("ferryman").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One server for this worker, or the one that FERRYMAN_DATABASE_URL names (then run without -n)."""
    with Cluster(tmp_path_factory.mktemp("postgres") / "pg", url=os.environ.get("FERRYMAN_DATABASE_URL")) as started:
        yield started


@pytest.fixture
async def database_url(cluster: Cluster) -> AsyncIterator[str]:
    """A migrated database of the test's own."""
    async with cluster.database() as url:
        yield url


@pytest.fixture
async def empty_database_url(cluster: Cluster) -> AsyncIterator[str]:
    """A database that has not been migrated."""
    async with cluster.database(migrated=False) as url:
        yield url


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    """The pool on that database."""
    database = Database(database_url)
    await database.open()
    yield database
    await database.close()


class _Undo(Exception):
    pass


@pytest.fixture
async def tx(db: Database) -> AsyncIterator[Session]:
    """A transaction on that database, rolled back at the end."""
    with suppress(_Undo):
        async with db.transaction() as transaction:
            yield transaction
            raise _Undo


@pytest.fixture
def endless_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let connections wait for a lock, and callers for a database that is away, for longer than a test lasts.

    A test that no work waits for a held row then needs no limit of time: work that waits hangs. Connections that are hurried
    (`Line.hurry`) still give up a lock after half a second.
    """
    monkeypatch.setitem(terms.LINE_SETTINGS, "lock_timeout", locks.written(ENDLESS))
    monkeypatch.setitem(terms.POOL_SETTINGS, "lock_timeout", locks.written(ENDLESS))
    monkeypatch.setattr(terms.bounds, "__kwdefaults__", {"lock": ENDLESS})
    for module in (opened, forks, messages):
        monkeypatch.setattr(module, "PATIENCE", ENDLESS / terms.LOCK_SHARE)


@pytest.fixture
def patient_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transaction of ours stay open while a test holds it at a gate, or its process waits for the processor.

    The server ends one that has been idle for two seconds.
    """
    monkeypatch.setitem(terms.LINE_SETTINGS, "idle_in_transaction_session_timeout", locks.written(ENDLESS))


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Configure a provider for one test: it is the whole process's, and other tests carry traces where there is none."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter
