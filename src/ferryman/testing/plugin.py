"""Fixtures for pytest (R9): there by themselves where Ferryman is installed, and free of cost as long as none is asked for.

`ferryman_url` is a migrated database of the test's own. `ferryman_trial` opens an app on it: `async with ferryman_trial(app) as
trial`. `ferryman_crashes` does the same and lets the test run once for each seed, its worker dying where the seed says;
`--ferryman-seeds` says how many seeds, `--ferryman-seed` names the only one.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from ferryman.testing.cluster import Cluster
    from ferryman.testing.trial import Trials

SEEDS = 8
SEED = "ferryman_seed"

Value = TypeVar("Value")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("ferryman")
    group.addoption("--ferryman-seeds", type=int, default=SEEDS, help=f"how many seeds of crashes to try ({SEEDS})")
    group.addoption("--ferryman-seed", type=int, default=None, help="try this seed of crashes alone")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let a test that asks for crashes run once for each seed."""
    if SEED in metafunc.fixturenames:
        alone = metafunc.config.getoption("--ferryman-seed")
        seeds = range(1, metafunc.config.getoption("--ferryman-seeds") + 1) if alone is None else [alone]
        metafunc.parametrize(SEED, seeds, ids=[f"seed={seed}" for seed in seeds], indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say how to meet the same crashes again."""
    report = yield
    seed = getattr(item, "callspec", None) and item.callspec.params.get(SEED)  # type: ignore[attr-defined]
    if report.failed and seed is not None:
        report.sections.append(("crashes", f"the same again: --ferryman-seed={seed}"))
    return report


@pytest.fixture(scope="session")
def ferryman_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One PostgreSQL for the run (for each worker of pytest-xdist), which forgets everything at its end."""
    from ferryman.testing.cluster import Cluster

    with Cluster(tmp_path_factory.mktemp("ferryman") / "postgres") as started:
        yield started


@pytest.fixture
def ferryman_url(ferryman_cluster: Cluster) -> Iterator[str]:
    """The address of a migrated database of this test's own."""
    url = _apart(ferryman_cluster.lend())
    try:
        yield url
    finally:
        _apart(ferryman_cluster.take_back(url))


@pytest.fixture
def ferryman_trial(ferryman_url: str) -> Trials:
    """What opens an app on the database of this test."""
    from ferryman.testing import trial

    return functools.partial(trial.opened, url=ferryman_url)


@pytest.fixture
def ferryman_seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run of the test."""
    return int(request.param)


@pytest.fixture
def ferryman_crashes(ferryman_url: str, ferryman_seed: int) -> Trials:
    """Like ferryman_trial, but its worker dies where the seed says; the test runs once for each seed."""
    from ferryman.testing import trial
    from ferryman.testing.crashes import Crashes

    return functools.partial(trial.opened, url=ferryman_url, crashes=Crashes(ferryman_seed))


def _apart(coming: Coroutine[Any, Any, Value]) -> Value:
    """Run in a loop of its own, on a thread of its own: a test may be async, and its loop is not ours."""
    run: Callable[[Coroutine[Any, Any, Value]], Value] = asyncio.run
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run, coming).result()
