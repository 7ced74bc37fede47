"""The OpenAPI document taken at its word: requests made of it, good and bad, over the wire to a real server (R6, S4).

No answer is a 5xx, and each fits the schema that the document gives for it. The server runs on a loop of its own, in a
thread, because the tool that makes the requests knows no event loop.
"""

from __future__ import annotations

import asyncio
import os
import queue
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from ferryman import Ferryman
from ferryman.app.tokens import ALL
from ferryman.http.server import make
from ferryman.http.serving import serving
from tests.access import town

# In the usual run as many operations as there is time for, others each day; FUZZ_EXAMPLES=100 tries them all, so often each.
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2"))
SECONDS = 3600.0 if "FUZZ_EXAMPLES" in os.environ else 4.0
TODAY = datetime.now(UTC).toordinal()
CHECKS: list[Any] = [not_a_server_error, response_schema_conformance, content_type_conformance]
PATIENCE_SECONDS = 100


@dataclass(frozen=True)
class Served:
    """A server in a thread."""

    url: str
    token: str
    document: dict[str, Any]


@pytest.fixture
def served(database_url: str) -> Iterator[Served]:
    told: queue.Queue[Served | BaseException] = queue.Queue()
    stop: list[Any] = []

    async def serve() -> None:
        http = {"rate": 1_000_000, "burst": 1_000_000}
        app = town.furnish(Ferryman(database_url, doorbell="none", relays={"webhook_key": town.KEY}, http=http))
        async with app, serving(app, port=0) as server:
            await town.settle(app, "default", "word")
            made = await app.tokens.create("root", scopes="admin", tenant=ALL)
            ended = asyncio.Event()
            stop.extend((asyncio.get_running_loop(), ended))
            told.put(Served(server.url, made.text, make(app).openapi()))
            await ended.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - told to the test
            told.put(error)

    thread = threading.Thread(target=run, daemon=True)  # one that could not be ended does not keep the process
    thread.start()
    found = told.get(timeout=PATIENCE_SECONDS)
    if isinstance(found, BaseException):
        raise found
    yield found
    loop, ended = stop
    loop.call_soon_threadsafe(ended.set)
    thread.join(PATIENCE_SECONDS)


def endless(operation: Any) -> bool:
    """Say whether an answer is a stream, which does not end."""
    answers = operation.definition.raw.get("responses", {}).values()
    return any("text/event-stream" in each.get("content", {}) for each in answers)


@pytest.mark.contract("R6", "S4")
@pytest.mark.timeout(SECONDS + 240)
def test_every_operation_answers_as_the_document_says(served: Served) -> None:
    schema = schemathesis.openapi.from_dict(served.document)
    tried = 0
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {served.token}"
        operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
        random.Random(TODAY).shuffle(operations)
        began = time.process_time()
        for operation in operations:
            if endless(operation) or time.process_time() - began > SECONDS:
                continue
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                tried += probe(operation, mode, served.url, session)

    assert tried > 10


def probe(operation: Any, mode: GenerationMode, url: str, session: requests.Session) -> int:
    """Try an operation with requests of one kind; return how many there were."""
    tried = 0

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def once(case: Case[Any]) -> None:
        nonlocal tried
        tried += 1
        case.call_and_validate(base_url=url, session=session, checks=CHECKS, timeout=PATIENCE_SECONDS)

    try:
        once()
    except Exception as error:
        if "Unsatisfiable" not in type(error).__name__:  # nothing can be wrong with a request that has no parts
            raise
    return tried
