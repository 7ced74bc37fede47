"""K24: commits whose answer is lost are resolved by their id or their fence; settings that a pooler refuses are left out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from ferryman import Context, Ferryman
from ferryman.app.wiring import opened as opened_app
from ferryman.kernel import errors, telemetry
from ferryman.kernel.pool import Line
from ferryman.kernel.timed import timed
from tests.crash import cargo, judge
from tests.crash.wire import Wire, wired
from tests.patience import PATIENCE_SECONDS

# Nothing here waits for the end of a lease, and nothing could be taken for it.
TERMS = {"lease": "300s", "poll": "0.1s", "watchdog_interval_seconds": 100, "grace": "5s"}

LOCKS = """
    select from pg_locks
     where locktype = 'advisory'
       and database = (select oid from pg_database where datname = current_database())
"""


@asynccontextmanager
async def opened(url: str, *, doorbell: str = "postgres", **terms: Any) -> AsyncIterator[tuple[Ferryman, list[int]]]:
    app = Ferryman(url, worker=TERMS | terms, doorbell=doorbell)
    attempts: list[int] = []

    @app.task
    async def echo(ctx: Context, word: str) -> str:
        attempts.append(ctx.task.epoch)
        return word[::-1]

    async with app:
        yield app, attempts


@asynccontextmanager
async def hasty(url: str, monkeypatch: pytest.MonkeyPatch, *, seconds: float) -> AsyncIterator[Ferryman]:
    """Open an app that gives up soon: what is to be refused takes no longer, and nothing that is to be done depends on it."""
    async with AsyncExitStack() as stack:
        with monkeypatch.context() as patch:
            patch.setattr(opened_app, "PATIENCE", timedelta(seconds=seconds))
            app, _ = await stack.enter_async_context(opened(url, doorbell="none"))
        yield app


def fenced(move: str = "settle") -> float:
    return telemetry.registry().get_sample_value("ferryman_fenced_total", {"domain": "task", "move": move}) or 0.0


@pytest.mark.contract("K24", "K11")
async def test_a_create_whose_answer_is_lost_makes_one_task_and_says_so(database_url: str) -> None:
    async with wired(database_url) as (wire, url), opened(url) as (app, _):
        await app.tasks.create("echo", word="before")
        wire.cut_reply("the-lost-one")

        handle = await app.tasks.create("echo", word="the-lost-one")

        assert wire.cuts == 1
        assert handle.idempotent_hit is False
        rows = await judge.read(database_url, "select id from ferryman.tasks where payload->>'word' = 'the-lost-one'")
        assert [row["id"] for row in rows] == [handle.id]


@pytest.mark.contract("K24", "K11")
@pytest.mark.parametrize("named", [{"task_id": "mine"}, {"idempotency_key": "mine"}], ids=["task_id", "key"])
async def test_a_named_create_whose_answer_is_lost_makes_one_task(database_url: str, named: dict[str, str]) -> None:
    async with wired(database_url) as (wire, url), opened(url) as (app, _):
        await app.tasks.create("echo", word="before")
        wire.cut_reply("the-lost-one")

        handle = await app.tasks.create("echo", {"word": "the-lost-one"}, **named)  # type: ignore[arg-type]

        assert wire.cuts == 1
        rows = await judge.read(database_url, "select id from ferryman.tasks where payload->>'word' = 'the-lost-one'")
        assert [row["id"] for row in rows] == [handle.id]


@pytest.mark.contract("K24")
async def test_many_created_at_once_are_created_once_though_their_commit_went_unanswered(database_url: str) -> None:
    async with wired(database_url) as (wire, url), opened(url) as (app, _):
        wire.cut_reply("COMMIT")

        handles = await app.tasks.create_many("echo", [{"word": str(n)} for n in range(1500)])

        assert wire.cuts == 1
        rows = await judge.read(database_url, "select id from ferryman.tasks")
        assert sorted(row["id"] for row in rows) == sorted(handle.id for handle in handles)


def broken_off(wire: Wire, *, mended_after: float | None) -> Iterator[dict[str, str]]:
    """Give payloads; in the middle of the second set every connection is cut."""
    for n in range(2500):
        if n == 1500:
            wire.refuse()
            if mended_after is not None:
                asyncio.get_running_loop().call_later(mended_after, wire.mend)
        yield {"word": str(n)}


@pytest.mark.contract("K24", "K11")
@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
async def test_many_whose_connection_breaks_half_way_are_all_created_once(database_url: str, keyed: bool) -> None:
    keys = [str(n) for n in range(2500)] if keyed else None
    async with wired(database_url) as (wire, url), opened(url, doorbell="none") as (app, _):
        handles = await app.tasks.create_many("echo", broken_off(wire, mended_after=0.3), idempotency_keys=keys)

        rows = await judge.read(database_url, "select id from ferryman.tasks")
        assert sorted(row["id"] for row in rows) == sorted(handle.id for handle in handles)
        assert not any(handle.idempotent_hit for handle in handles)
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K24", "K11")
async def test_many_that_could_not_be_created_left_nothing_and_may_be_sent_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [str(n) for n in range(2500)]
    async with (
        wired(database_url) as (wire, url),
        hasty(url, monkeypatch, seconds=0.5) as impatient,
        opened(url, doorbell="none") as (app, _),
    ):
        with pytest.raises(errors.DatabaseUnavailable) as told:
            await impatient.tasks.create_many("echo", broken_off(wire, mended_after=None), idempotency_keys=keys)
        nothing = await judge.read(database_url, "select id from ferryman.tasks")
        wire.mend()
        payloads = [{"word": str(n)} for n in range(2500)]
        first = await app.tasks.create_many("echo", payloads, idempotency_keys=keys)
        again = await app.tasks.create_many("echo", payloads, idempotency_keys=keys)

        assert (told.value.retryable, list(nothing)) == (True, [])
        assert [handle.id for handle in again] == [handle.id for handle in first]
        assert len(await judge.read(database_url, "select id from ferryman.tasks")) == 2500


@pytest.mark.contract("T18", "K24", "K2")
async def test_whoever_waits_for_a_result_gets_it_though_every_connection_was_cut(database_url: str) -> None:
    async with (
        wired(database_url) as (wire, url),
        opened(url, poll="10m") as (waiter, _),
        opened(database_url) as (app, _),
    ):
        handle = await waiter.tasks.create("echo", word="abc")
        waiting = asyncio.ensure_future(handle.result(timeout=PATIENCE_SECONDS))
        await asyncio.sleep(0)
        wire.refuse()
        async with app.worker():
            await app.tasks.of("default").end(handle.id)  # nobody who waits behind the wire can have heard of it
            wire.mend()

            assert await waiting == "cba"


@pytest.mark.contract("K24", "K4")
async def test_a_settle_whose_answer_is_lost_is_fenced_when_it_is_repeated(database_url: str) -> None:
    before = fenced()
    async with wired(database_url) as (wire, url), opened(url) as (app, attempts), app.worker():
        wire.cut_reply("eno-tsol-eht")  # the result on its way to the database

        handle = await app.tasks.create("echo", word="the-lost-one")

        assert await handle.result(timeout=PATIENCE_SECONDS) == "eno-tsol-eht"
        await seen(lambda: fenced() > before)
        assert wire.cuts == 1
        assert attempts == [1]
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K24", "K5")
async def test_a_claim_whose_answer_is_lost_is_handed_back_without_waiting_for_its_lease(database_url: str) -> None:
    async with wired(database_url) as (wire, url), opened(url) as (app, attempts), opened(database_url) as (client, _):
        wire.cut_answer("the-lost-one")  # the payload on its way to the worker
        async with app.worker():
            handle = await client.tasks.create("echo", word="the-lost-one")

            assert await handle.result(timeout=PATIENCE_SECONDS) == "eno-tsol-eht"

    assert wire.cuts == 1
    assert attempts == [2]
    assert (await row(database_url))["attempt"] == 1
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K24")
async def test_a_cancel_whose_answer_is_lost_says_what_it_cancelled(database_url: str) -> None:
    async with opened(database_url) as (other, _):
        before = await other.tasks.create("echo", word="before")
        await before.cancel()
    async with wired(database_url) as (wire, url), opened(url) as (app, _):
        async with app.database.session() as tx:
            await tx.fetch("update ferryman.tasks set finished_at = finished_at - interval '1 h'")
        handle = await app.tasks.create("echo", word="x")
        wire.cut_reply("COMMIT")

        done = await app.tasks.cancel(before.id, handle.id)

        assert wire.cuts == 1
        assert done == [handle.id]
        assert await app.tasks.cancel(handle.id) == []
        assert (await handle.refresh()).state == "cancelled"
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K24")
@pytest.mark.parametrize("kept", [60.0, 0.0], ids=["by a statement", "when plans are made anew"])
async def test_a_line_gives_up_a_connection_whose_packets_are_lost(
    database_url: str, monkeypatch: pytest.MonkeyPatch, kept: float
) -> None:
    monkeypatch.setattr("ferryman.kernel.pool.line.PLANS_KEPT_SECONDS", kept)
    async with wired(database_url) as (wire, url):
        line = Line(url, patience=timedelta(seconds=2))
        [before] = await line.fetch("select pg_backend_pid() as pid, current_setting('statement_timeout') as server")
        wire.lose()

        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(errors.DatabaseUnavailable):
                await line.fetch("select 1")
        wire.mend()

        [after] = await line.fetch("select pg_backend_pid() as pid")
        assert wire.lost > 0
        assert before["server"] == "1600ms"  # when the line gives up, the server has
        assert after["pid"] != before["pid"]
        await line.close()


@pytest.mark.contract("K24", "K5")
async def test_an_outcome_whose_packets_are_lost_is_sent_anew_before_its_lease_ends(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    started, go = asyncio.Event(), asyncio.Event()
    lease: dict[str, Any] = {"lease": "6s", "watchdog_interval_seconds": 1}
    async with (
        wired(database_url) as (wire, url),
        opened(url, **lease) as (app, _),
        opened(database_url) as (client, _),
    ):

        @app.task
        async def held() -> str:
            started.set()
            await go.wait()
            return "done"

        client.declare("held")
        async with app.worker():
            handle = await client.tasks.create("held")
            await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
            wire.lose()
            go.set()
            await seen(lambda: "the database cannot be used; coming back" in caplog.messages)
            wire.mend()

            assert await handle.result(timeout=PATIENCE_SECONDS) == "done"

    [told] = await judge.read(database_url, "select attempt, epoch from ferryman.tasks")
    assert tuple(told) == (1, 1)
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("R2", "K4", "K5", "K24")
@pytest.mark.parametrize("move", ["renew", "settle"], ids=["at work", "with its outcome in hand"])
@pytest.mark.parametrize("over", [True, False], ids=["its successor has ended", "its successor is at work"])
async def test_a_living_worker_that_was_cut_off_past_its_lease_is_fenced_when_it_is_back(
    move: str, over: bool, database_url: str
) -> None:
    started, go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    taken, finish = asyncio.Event(), asyncio.Event()
    ends: list[str] = []
    lease: dict[str, Any] = {"lease": "2s", "lease_sweep_seconds": 0.2}
    async with (
        wired(database_url) as (wire, url),
        opened(url, **lease) as (cut_off, _),
        opened(database_url, **lease) as (successor, _),
    ):

        @cut_off.task(name="held")
        async def held() -> str:
            started.set()
            try:
                await go.wait()
                ends.append("returned")
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise
            finally:
                ended.set()
            return "by who was cut off"

        @successor.task(name="held", backoff=0.05)
        async def held_anew() -> str:
            taken.set()
            await finish.wait()
            return "by its successor"

        async with cut_off.worker():
            handle = await successor.tasks.create("held")
            await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
            wire.lose()
            if move == "settle":
                go.set()
            async with successor.worker():
                await asyncio.wait_for(taken.wait(), PATIENCE_SECONDS)
                if over:
                    finish.set()
                    await handle.result(timeout=PATIENCE_SECONDS)
                before = fenced(move)

                wire.mend()
                await seen(lambda: fenced(move) > before)
                await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)
                finish.set()
                assert await handle.result(timeout=PATIENCE_SECONDS) == "by its successor"

    assert wire.lost > 0
    assert ends == ["cancelled" if move == "renew" else "returned"]
    assert await row(database_url) == {"state": "succeeded", "attempt": 2, "epoch": 2}
    moves = await judge.read(database_url, "select to_state from ferryman.events where kind = 'task' order by id")
    assert [each["to_state"] for each in moves].count("succeeded") == 1
    assert moves[-1]["to_state"] == "succeeded"
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K24", "K11")
async def test_a_create_whose_packets_are_lost_is_told_in_time_and_may_be_repeated(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        wired(database_url) as (wire, url),
        hasty(url, monkeypatch, seconds=2) as impatient,
        opened(url) as (app, _),
    ):
        await impatient.tasks.create("echo", word="before")
        await app.tasks.create("echo", word="before")
        wire.lose()

        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(errors.DatabaseUnavailable) as told:
                await impatient.tasks.create("echo", {"word": "lost"}, idempotency_key="k")
        wire.mend()
        handle = await app.tasks.create("echo", {"word": "lost"}, idempotency_key="k")

        assert told.value.retryable
        rows = await judge.read(database_url, "select id from ferryman.tasks where idempotency_key = 'k'")
        assert [row["id"] for row in rows] == [handle.id]


@pytest.mark.contract("K24")
async def test_settings_that_a_pooler_refuses_are_left_out(database_url: str) -> None:
    async with wired(database_url, strict=True) as (wire, url), opened(url) as (app, _), app.worker():
        handle = await app.tasks.create("echo", word="abc")
        later = await app.tasks.create_many("echo", [{"word": str(n)} for n in range(50)])

        assert await handle.result(timeout=PATIENCE_SECONDS) == "cba"
        assert [await each.result(timeout=PATIENCE_SECONDS) for each in later] == [str(n)[::-1] for n in range(50)]

    # The pool, and each line by itself: none of them gave up.
    assert wire.refusals >= 5
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K24")
async def test_no_statement_is_kept_behind_a_pooler_that_may_change_servers(database_url: str) -> None:
    kept = "select name from pg_prepared_statements"
    async with wired(database_url, strict=True) as (_, url), opened(url, doorbell="none") as (app, _):
        line = Line(url)
        for _ in range(2):
            assert list(await line.fetch(kept)) == []
            async with app.database.session() as tx:
                assert list(await tx.fetch(kept)) == []
        await line.close()


@pytest.mark.contract("K24")
async def test_a_statement_by_itself_has_its_bounds_behind_a_pooler_and_leaves_none_there(database_url: str) -> None:
    bounds = "select current_setting('lock_timeout'), current_setting('statement_timeout'), pg_backend_pid()"
    async with wired(database_url, strict=True) as (_, url):
        line = Line(url, patience=timedelta(seconds=5))

        [within] = await line.fetch(bounds)
        with pytest.raises(errors.DatabaseUnavailable, match="statement timeout"):
            await line.fetch("select pg_sleep(5)")
        await line.execute("notify nobody")
        session = await line.open()
        [after] = await session._connection.fetch(bounds)  # what the next client of the pooler finds

        assert tuple(within)[:2] == ("2s", "4s")  # type: ignore[arg-type]
        assert tuple(after) == ("0", "0", within[2])
        await line.close()


@pytest.mark.contract("K24")
async def test_who_gives_up_behind_a_pooler_does_not_wait_for_a_silent_connection_to_roll_back(
    database_url: str,
) -> None:
    async with wired(database_url, strict=True) as (wire, url):
        line = Line(url, patience=timedelta(minutes=20))
        await line.fetch("select 1")
        wire.lose()

        async with asyncio.timeout(PATIENCE_SECONDS):  # less than the line's own patience, of which it uses nothing
            with pytest.raises(TimeoutError):
                await timed(line.fetch("select 1"), 1)
        wire.mend()

        assert [row["n"] for row in await line.fetch("select 1 as n")] == [1]
        await line.close()


@pytest.mark.contract("K24", "P1")
@pytest.mark.parametrize(("strict", "trips"), [(True, 3), (False, 1)], ids=["pooler", "direct"])
async def test_only_behind_a_pooler_a_statement_by_itself_is_given_a_transaction(
    database_url: str, strict: bool, trips: int
) -> None:
    asked: list[str] = []
    async with wired(database_url, strict=strict) as (_, url):
        line = Line(url)
        (await line.open())._connection.add_query_logger(lambda each: asked.append(each.query))

        await line.fetch("select 1")
        await asyncio.sleep(0)  # the driver tells of them at the next turn of the loop

        assert len(asked) == trips
        await line.close()


@pytest.mark.contract("K24")
async def test_nothing_is_left_in_a_session_that_another_client_could_meet(database_url: str) -> None:
    line = Line(database_url)
    async with opened(database_url, doorbell="none") as (app, _), app.worker():
        handle = await app.tasks.create("echo", word="abc")
        await handle.result(timeout=PATIENCE_SECONDS)
        await (await app.tasks.create("echo", word="later")).cancel()

        # The worker goes on meanwhile: a lock that one of its transactions holds is gone with it, one of a session stays.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await line.fetch(LOCKS):
                continue
        assert await line.fetch("select from pg_class where relpersistence = 't'") == []
    await line.close()


async def row(url: str) -> dict[str, object]:
    [found] = await judge.read(url, "select state, attempt, epoch from ferryman.tasks")
    return dict(found)


async def seen(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not look():  # noqa: ASYNC110 - a counter has no event
            await asyncio.sleep(0.01)
