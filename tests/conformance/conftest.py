"""Doorbells of every kind, on real servers."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from ferryman.kernel.doorbell import Doorbell, NoDoorbell
from ferryman.kernel.doorbell_nats import NatsDoorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.testing import Cluster, Doubled, Late, Lossy, NatsServer
from tests.conformance.ear import Make


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def schema() -> str:
    """A name that no other test rings under, so that all can share one database."""
    return f"test_{uuid4().hex}"


@pytest.fixture
def make(cluster: Cluster, nats: NatsServer, schema: str) -> Make:
    """Give doorbells by name, as many processes would have them: one object each."""

    def by_name(name: str, *, schema: str = schema) -> Doorbell:
        match name:
            case "postgres":
                return PostgresDoorbell(cluster.address("postgres"), schema=schema)
            case "nats":
                return NatsDoorbell(nats.url, schema=schema)
            case "none":
                return NoDoorbell()
            case "lossy" | "deaf":
                return Lossy(by_name("postgres", schema=schema), share=0.5 if name == "lossy" else 1.0, seed=7)
            case "doubled":
                return Doubled(by_name("postgres", schema=schema))
            case "late":
                return Late(by_name("postgres", schema=schema))
        raise LookupError(name)

    return by_name
