"""Ships of the test's own, ended with it, under the doorbell that TEST_DOORBELL names (PostgreSQL's by default)."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ferryman.testing import NatsServer
from tests.crash.yard import BELLS, Ship

Launch = Callable[..., Ship]


@pytest.fixture(scope="session")
def bell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Give the settings of the doorbell that is asked for; whoever is started or opened in these tests has them."""
    asked = os.environ.get("TEST_DOORBELL") or "pg"
    terms = BELLS[asked]
    if asked != "nats":
        yield terms
        return
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield terms | {"FERRYMAN_NATS_URL": server.url}


@pytest.fixture(autouse=True)
def rung(bell: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what the test itself opens ring the same doorbell."""
    for name, value in bell.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def ship(tmp_path: Path, bell: dict[str, str]) -> Iterator[Launch]:
    """Make ships; whatever is left of them is killed at the end."""
    made: list[Ship] = []
    names = (f"ship{number}" for number in itertools.count())

    def make(url: str, **plan: object) -> Ship:
        made.append(Ship(tmp_path, next(names), url, bell=bell, **plan))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.kill()
