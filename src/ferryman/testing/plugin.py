"""Fixtures for pytest (R9): there by themselves where Ferryman is installed, and free of cost as long as none is asked for.

`ferryman_url` is a migrated database of the test's own. `ferryman_trial` opens an app on it: `async with ferryman_trial(app) as
trial`; an app with a schema of its own gets a database that has it. `ferryman_crashes` does the same and lets the test run once
for each seed, its worker dying where the seed says; `--ferryman-seeds` says how many seeds at most, `--ferryman-seed` names the
only one.

How many places the handlers of a test pass is known only when they have run. So more seeds are collected than a test should
need, and the first that kills nobody is the last that is run, whether the test passes or fails by it: the rest count as
deselected.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from ferryman.app.ferryman import Ferryman
    from ferryman.testing.cluster import Cluster
    from ferryman.testing.trial import Trial, Trials

SEEDS = 100
SEED = "ferryman_seed"
APART = "The worker was a process of its own: what handlers keep in memory is not seen by the test; let them write to a file."
UNNEEDED = ("ferryman", "this seed is beyond the last place")

Value = TypeVar("Value")

# Of each test: the trials with crashes that it has opened. They are asked for their deaths while they are open: a fixture of
# the user's may hold one open for longer than the test lasts.
_trials = pytest.StashKey["list[Trial]"]()
# For each test: the lowest seed that killed nobody.
_beyond = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("ferryman")
    group.addoption(
        "--ferryman-seeds", type=int, default=None, help=f"how many seeds of crashes to try at most ({SEEDS})"
    )
    group.addoption("--ferryman-seed", type=int, default=None, help="try this seed of crashes alone")
    group.addoption(
        "--ferryman-server", metavar="URL", default=None,
        help="make the databases of tests on this PostgreSQL, and drop them again, instead of on one that is started here",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Know nothing yet of any test."""
    config.stash[_beyond] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let a test that asks for crashes run once for each seed."""
    if SEED in metafunc.fixturenames:
        alone, most = (metafunc.config.getoption(name) for name in ("--ferryman-seed", "--ferryman-seeds"))
        seeds = [alone] if alone is not None else range(1, (SEEDS if most is None else most) + 1)
        metafunc.parametrize(SEED, seeds, ids=[f"seed={seed}" for seed in seeds], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a seed if a lower one killed nobody."""
    seed = _seed(item)
    if seed is not None and seed > item.config.stash[_beyond].get(_test(item, seed), seed):
        item.user_properties.append(UNNEEDED)
        pytest.skip(UNNEEDED[1])


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """Count what was left out as deselected, and do not show it."""
    left_out = UNNEEDED in map(tuple, getattr(report, "user_properties", ()))
    return (("deselected" if report.skipped else ""), "", "") if left_out else None


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Look, when a test with crashes is over, whether there were any."""
    seed = _seed(pyfuncitem)
    try:
        result = yield
    finally:
        if seed is not None and _trials in pyfuncitem.stash:
            _look(pyfuncitem, seed)
    if seed is not None and _trials in pyfuncitem.stash:
        _judge(pyfuncitem, seed)
    return result


def _look(item: pytest.Item, seed: int) -> None:
    """Let a seed that killed nobody be the last of its test."""
    if not _deaths(item):
        beyond = item.config.stash[_beyond]
        beyond[_test(item, seed)] = min(seed, beyond.get(_test(item, seed), seed))


def _judge(item: pytest.Item, seed: int) -> None:
    """Whoever asks for a seed by its number, or finds no place at all, is told that nobody died."""
    from ferryman.testing.crashes import Crashes
    from ferryman.testing.trial import NobodyDied

    alone, most = (item.config.getoption(name) for name in ("--ferryman-seed", "--ferryman-seeds"))
    if _deaths(item):
        if alone is None and most is None and seed == SEEDS:
            said = (
                f"Seed {seed} still found a place to die, and is the last: try more, with --ferryman-seeds={2 * SEEDS}."
            )
            warnings.warn(pytest.PytestWarning(said), stacklevel=1)
    elif alone is not None or seed == 1:
        raise NobodyDied(Crashes(seed))


def _seed(item: pytest.Item) -> int | None:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get(SEED) if callspec is not None else None


def _deaths(item: pytest.Item) -> int:
    return sum(trial.deaths for trial in item.stash.get(_trials, []))


def _test(item: pytest.Item, seed: int) -> str:
    """Return the name that all seeds of a test share."""
    return item.nodeid.replace(f"seed={seed}", "seed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say how to meet the same crashes again."""
    report = yield
    seed = _seed(item)
    if report.failed and seed is not None:
        if report.when == "setup":
            _look(item, seed)  # what no seed can set up is not tried a hundred times
        died = [f"killed at {place}" for trial in item.stash.get(_trials, []) for place in trial.died]
        file = os.path.relpath(item.path, item.config.invocation_params.dir)
        test = f"{file}::{item.nodeid.partition('::')[2]}"
        again = f"the same again: pytest {shlex.quote(test)} --ferryman-seed={seed}"
        report.sections.append(("crashes", "\n".join([*died, again, APART])))
    return report


@pytest.fixture(scope="session")
def ferryman_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One PostgreSQL for the run (for each worker of pytest-xdist), which forgets everything at its end."""
    from ferryman.kernel import errors
    from ferryman.testing.cluster import Cluster

    server = request.config.getoption("--ferryman-server")
    cluster = Cluster(tmp_path_factory.mktemp("ferryman") / "postgres", url=server)
    try:
        cluster.start()
    except errors.EmbeddedUnavailable as error:
        # A test takes no address from the environment: it may be that of production.
        raise RuntimeError(
            f"{error.message} Or give one for tests: pytest --ferryman-server=postgresql://..."
        ) from None
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def ferryman_url(ferryman_cluster: Cluster) -> Iterator[str]:
    """The address of a migrated database of this test's own."""
    url = _apart(ferryman_cluster.lend())
    try:
        yield url
    finally:
        _apart(ferryman_cluster.take_back(url))


class _Lent:
    """The databases of one test: one for each schema that an app of it lives in."""

    def __init__(self, cluster: Cluster, url: str) -> None:
        self._cluster = cluster
        self._own = url
        self._others: dict[str, str] = {}

    async def fit(self, app: Ferryman) -> str:
        """Return the address of the one that has the tables of an app."""
        schema = app.settings.schema
        if schema == self._cluster.schema:
            return self._own
        if schema not in self._others:
            self._others[schema] = await self._cluster.lend(schema=schema)
        return self._others[schema]

    async def take_back(self) -> None:
        """Drop those that were made here."""
        for url in self._others.values():
            await self._cluster.take_back(url)


@pytest.fixture
def _ferryman_lent(ferryman_cluster: Cluster, ferryman_url: str) -> Iterator[_Lent]:
    """The databases of this test."""
    lent = _Lent(ferryman_cluster, ferryman_url)
    try:
        yield lent
    finally:
        _apart(lent.take_back())


@pytest.fixture
def ferryman_trial(_ferryman_lent: _Lent) -> Trials:
    """What opens an app on the database of this test."""
    from ferryman.testing import trial

    @asynccontextmanager
    async def opened(app: Ferryman) -> AsyncIterator[Trial]:
        async with trial.opened(app, await _ferryman_lent.fit(app)) as made:
            yield made

    return opened


@pytest.fixture
def ferryman_seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run of the test."""
    return int(request.param)


@pytest.fixture
def ferryman_crashes(request: pytest.FixtureRequest, _ferryman_lent: _Lent, ferryman_seed: int) -> Trials:
    """Like ferryman_trial, but its worker dies where the seed says; the test runs once for each seed that finds a place."""
    from ferryman.testing import trial
    from ferryman.testing.crashes import Crashes

    held = request.node.stash[_trials] = []

    @asynccontextmanager
    async def opened(app: Ferryman) -> AsyncIterator[Trial]:
        try:
            url = await _ferryman_lent.fit(app)
            async with trial.opened(app, url, crashes=Crashes(ferryman_seed)) as made:
                held.append(made)
                yield made
        except trial.NobodyDied:
            return  # another trial of the same test may have more places: judged when the test has ended

    return opened


def _apart(coming: Coroutine[Any, Any, Value]) -> Value:
    """Run in a loop of its own, on a thread of its own: a test may be async, and its loop is not ours."""
    run: Callable[[Coroutine[Any, Any, Value]], Value] = asyncio.run
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run, coming).result()
