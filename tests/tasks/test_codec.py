"""Payloads and results under a codec: the tables hold nothing that can be read without it (S6)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ferryman import Context, Ferryman
from ferryman.kernel import codec, errors
from ferryman.kernel.codec import PLAIN, Seal
from ferryman.tasks.states import READY
from tests.patience import PATIENCE_SECONDS
from tests.tasks import clerks

WORD = "kilimanjaro"


class Rot:
    """No cipher, and never twice the same."""

    def __init__(self, key: int = 1) -> None:
        self.key = key
        self.count = 0

    def encode(self, data: bytes) -> bytes:
        self.count += 1
        return bytes([self.key, self.count % 256]) + bytes((each + self.key) % 256 for each in data)

    def decode(self, data: bytes) -> bytes:
        if data[0] != self.key:
            raise ValueError(f"made with key {data[0]}, about {WORD}")
        return bytes((each - self.key) % 256 for each in data[2:])


def furnish(app: Ferryman) -> Ferryman:
    app.task(process=True)(clerks.add)

    @app.task
    async def echo(payload: Any) -> Any:
        return payload

    @app.task
    async def parent(word: str, ctx: Context) -> list[Any]:
        step = await ctx.step("look", lambda: {"found": word})
        child = await ctx.child(echo, {"word": word})
        event = await ctx.wait_event("go")
        return [step, child, event]

    @app.task
    def plain(word: str) -> str:
        return word

    return app


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    async with furnish(Ferryman(database_url, codec=Rot())) as opened:
        yield opened


async def everything(app: Ferryman) -> str:
    """Return all that is stored, as text."""
    async with app.database.session() as tx:
        tables = await tx.fetch(
            "select relname from pg_class where relnamespace = 'ferryman'::regnamespace and relkind in ('r', 'p')"
        )
        said = [
            (
                await tx.fetch(
                    f"select coalesce(string_agg(t::text, ' '), '') as all from ferryman.{row['relname']} as t"
                )
            )[0]
            for row in tables
        ]
    return " ".join(row["all"] for row in said)


@pytest.mark.contract("S6")
async def test_nothing_of_a_payload_a_result_a_step_a_child_or_an_event_is_stored_in_plain(app: Ferryman) -> None:
    async with app.worker():
        parent = await app.tasks.create("parent", word=WORD)
        await parent.send_event("go", {"said": WORD})
        many = await app.tasks.create_many("echo", [{"word": WORD, "n": n} for n in range(3)])
        thread = await app.tasks.create("plain", word=WORD)
        process = await app.tasks.create("add", a=[WORD], b=["x"])
        later = await app.schedules.create("echo", {"word": WORD}, every=3600)
        fired = await later.trigger()

        assert await parent.result(timeout=PATIENCE_SECONDS) == [{"found": WORD}, {"word": WORD}, {"said": WORD}]
        assert [(await each.result(timeout=PATIENCE_SECONDS))["n"] for each in many] == [0, 1, 2]
        assert await thread.result(timeout=PATIENCE_SECONDS) == WORD
        assert await process.result(timeout=PATIENCE_SECONDS) == [WORD, "x"]
        assert await fired.result(timeout=PATIENCE_SECONDS) == {"word": WORD}

    stored = await everything(app)
    assert WORD not in stored
    assert stored.count(codec.FIELD) >= 10


@pytest.mark.contract("S6")
async def test_whoever_has_the_codec_reads_what_is_there_and_others_are_told(app: Ferryman, database_url: str) -> None:
    async with app.worker():
        made = await app.tasks.create("echo", {"word": WORD})
        await made.result(timeout=PATIENCE_SECONDS)

    assert json.loads((await app.tasks.record(made.id)).result or "") == {"word": WORD}
    assert json.loads((await app.tasks.list())[0].payload) == {"word": WORD}
    for key in (None, Rot(2)):
        async with Ferryman(database_url, codec=key) as other:
            shown = (await other.tasks.record(made.id)).result or ""
            assert (list(json.loads(shown)), WORD in shown) == ([codec.FIELD], False)
            with pytest.raises(errors.PayloadSealed) as refusal:
                await (await other.tasks.get(made.id)).result(timeout=PATIENCE_SECONDS)
            assert WORD not in str(refusal.value)


@pytest.mark.contract("S6")
async def test_what_was_stored_without_a_codec_stays_readable(app: Ferryman, database_url: str) -> None:
    async with furnish(Ferryman(database_url)) as before:
        made = await before.tasks.create("echo", {"word": "plain"})
    async with app.worker():
        assert await (await app.tasks.get(made.id)).result(timeout=PATIENCE_SECONDS) == {"word": "plain"}


@pytest.mark.contract("S6")
async def test_a_worker_without_the_codec_leaves_a_task_for_one_that_has_it(app: Ferryman, database_url: str) -> None:
    made = await app.tasks.create("echo", {"word": WORD}, max_retries=5, backoff=3600)
    async with furnish(Ferryman(database_url)) as bare, bare.worker():
        while (seen := await bare.tasks.record(made.id)).last_error_code is None:
            pass

    assert (seen.state, seen.attempt, seen.last_error_code) == (READY, 2, "PAYLOAD_SEALED")


@pytest.mark.contract("S6", "K13")
async def test_a_payload_is_checked_before_it_is_sealed(app: Ferryman) -> None:
    with pytest.raises(errors.TaskInvalidPayload):
        await app.tasks.create("plain", word=7)
    with pytest.raises(errors.TaskInvalidPayload):
        await app.tasks.create("echo", "x" * 2**21)
    assert await app.tasks.list() == []


@pytest.mark.contract("S6")
def test_a_seal_opens_what_it_closed_and_leaves_the_rest_alone() -> None:
    seal = Seal(Rot())
    text = json.dumps({"word": WORD, codec.FIELD: "x"})

    assert seal.open(seal.close(text)) == text
    assert json.loads(seal.close(text)).keys() == {codec.FIELD}
    assert (seal.open(text), PLAIN.close(text), PLAIN.open(text)) == (text, text, text)
    for spoiled in (f'{{"{codec.FIELD}": "?"}}', f'{{"{codec.FIELD}": ""}}', f'{{"{codec.FIELD}": "AgAA"}}'):
        with pytest.raises(errors.PayloadSealed):
            seal.open(spoiled)
