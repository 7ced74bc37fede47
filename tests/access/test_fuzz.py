"""The OpenAPI document taken at its word: requests made of it, good and bad, over the wire to a real server (R6, S4).

No answer is a 5xx, each fits the schema that the document gives for it, and nothing is stored on a refusal. The server runs on
a loop of its own, in a thread, because the tool that makes the requests knows no event loop.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from ferryman import Ferryman
from ferryman.app.tokens import ALL
from ferryman.http.server import make
from ferryman.http.serving import serving
from tests.access import aftermath, atlas, luck, town

# So often each operation is tried with requests that fit, and with such that do not; FUZZ_EXAMPLES=100 tries them so often. The
# first that is drawn is always the simplest.
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2"))
CHECKS: list[Any] = [not_a_server_error, response_schema_conformance, content_type_conformance]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
PATIENCE_SECONDS = 100


@dataclass(frozen=True)
class Served:
    """A server in a thread."""

    url: str
    token: str
    document: dict[str, Any]
    noted: aftermath.Noted
    loop: asyncio.AbstractEventLoop

    def stored(self) -> list[str]:
        """Return what was written since the last look."""
        return asyncio.run_coroutine_threadsafe(self.noted.since(), self.loop).result(PATIENCE_SECONDS)


@pytest.fixture
def served(database_url: str) -> Iterator[Served]:
    told: queue.Queue[Served | BaseException] = queue.Queue()
    ended = asyncio.Event()

    async def serve() -> None:
        http = {"rate": 1_000_000, "burst": 1_000_000}
        app = town.furnish(Ferryman(database_url, doorbell="none", relays={"webhook_key": town.KEY}, http=http))
        async with app, serving(app, port=0) as server:
            await town.settle(app, "default", "word")
            made = await app.tokens.create("root", scopes="admin", tenant=ALL)
            async with aftermath.noted(app) as noted:
                loop = asyncio.get_running_loop()
                told.put(Served(server.url, made.text, make(app).openapi(), noted, loop))
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
    found.loop.call_soon_threadsafe(ended.set)
    thread.join(PATIENCE_SECONDS)


def endless(operation: Any) -> bool:
    """Say whether an answer is a stream, which does not end."""
    answers = operation.definition.raw.get("responses", {}).values()
    return any("text/event-stream" in each.get("content", {}) for each in answers)


def bare(operation: Any) -> bool:
    """Say whether a request has no parts that could be wrong: neither parameters nor a body, nor a token."""
    return not any(operation.definition.raw.get(part) for part in ("parameters", "requestBody", "security"))


@pytest.mark.contract("R6", "S4")
@pytest.mark.timeout(240 + 36 * EXAMPLES)
def test_every_operation_answers_as_the_document_says(served: Served) -> None:
    chance, answers = luck.told(), Counter[int]()
    found = list(schemathesis.openapi.from_dict(served.document).get_all_operations())
    unread = [each for each in found if not isinstance(each, Ok)]
    operations = [each.ok() for each in found if isinstance(each, Ok)]
    untried, unspoiled = [], []
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {served.token}"
        for operation in operations:
            came = [probe(operation, mode, served, session, chance) for mode in MODES]
            untried += [operation.label] if not came[0] else []
            unspoiled += [operation.label] if not came[1] else []
            answers += came[0] + came[1]

    assert (unread, untried) == ([], [])
    assert set(unspoiled) == {each.label for each in operations if bare(each)}
    assert len(operations) == len(atlas.operations(served.document))
    # Neither is everything refused, nor is everything let in.
    assert min(answers[200], answers[404], answers[422]) > 10, answers


def probe(operation: Any, mode: GenerationMode, served: Served, session: requests.Session, chance: int) -> Counter[int]:
    """Try an operation with requests of one kind; return what was answered, how often."""
    answers: Counter[int] = Counter()

    @seed(chance)
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def once(case: Case[Any]) -> None:
        served.stored()  # what an example before this one left, if that one failed
        status = ask(case, served.url, session, endless=endless(operation))
        stored = served.stored()
        assert status < 400 or not stored, (operation.label, status, case.as_curl_command(), stored)
        answers[status] += 1

    try:
        once()
    except Exception as error:
        if "Unsatisfiable" not in type(error).__name__:  # the caller asks whether there was anything to draw
            raise
    return answers


def ask(case: Case[Any], url: str, session: requests.Session, *, endless: bool) -> int:
    """Send a request, look at its answer, and return its status; of a stream only the head is looked at."""
    if not endless:
        return case.call_and_validate(
            base_url=url, session=session, checks=CHECKS, timeout=PATIENCE_SECONDS
        ).status_code
    sent = case.as_transport_kwargs(base_url=url)
    with session.request(**sent, stream=True, timeout=PATIENCE_SECONDS) as answer:
        streams = answer.headers["content-type"].startswith("text/event-stream")
        assert streams == (answer.status_code == 200)
        if not streams:
            case.validate_response(answer, checks=CHECKS)
        return answer.status_code
