"""A create takes its ring along, unless another create is doing so at this moment (K2)."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

import ferryman
from ferryman.kernel import doorbell_pg
from ferryman.kernel.doorbell import Inside
from ferryman.kernel.doorbell_pg import PostgresDoorbell, channel
from ferryman.kernel.pool import Database
from tests.conformance.ear import Ear
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp

SOURCES = Path(ferryman.__file__).parent
# What rings in the transaction that it is part of: creates, one at a time of all, and who was lent a caller's transaction.
RINGS_INSIDE = {
    "tasks/sql/tasks/create.sql",
    "tasks/sql/tasks/create_alike.sql",
    "tasks/sql/tasks/create_one.sql",
    "kernel/sql/doorbell/ring_within.sql",
}
HOLD = "select pg_advisory_xact_lock(hashtextextended('ferryman.doorbell', 0))"


async def idle(n: int = 0) -> int:
    return n


@pytest.mark.contract("K2")
@pytest.mark.parametrize("options", [{}, {"idempotency_key": "order-7"}])
async def test_a_lonely_create_rings_in_its_own_transaction(
    make_app: MakeApp, database_url: str, options: dict[str, str]
) -> None:
    app = await make_app(idle)
    elsewhere = PostgresDoorbell(database_url)
    ear = Ear(elsewhere)
    await elsewhere.open()

    await app.tasks.create(idle, None, **options)  # type: ignore[arg-type]

    await ear.until(lambda ear: bool(ear.heard))
    await elsewhere.close()
    assert isinstance(app.doorbell, PostgresDoorbell)
    assert app.doorbell.sent == 0


@pytest.mark.contract("K2")
async def test_many_that_travel_together_ring_in_their_own_transaction(make_app: MakeApp, database_url: str) -> None:
    app = await make_app(idle)
    elsewhere = PostgresDoorbell(database_url)
    ear = Ear(elsewhere)
    await elsewhere.open()

    await app.tasks.create_many(idle, [{"n": n} for n in range(3)])

    await ear.until(lambda ear: bool(ear.heard))
    await elsewhere.close()
    assert isinstance(app.doorbell, PostgresDoorbell)
    await app.doorbell.close()  # whatever it had to send is sent now
    assert app.doorbell.sent == 0


@pytest.mark.contract("K2", "K17")
@pytest.mark.parametrize("options", [{}, {"idempotency_key": "order-7"}])
async def test_a_create_waits_for_no_other_to_ring(
    make_app: MakeApp, database_url: str, db: Database, options: dict[str, str]
) -> None:
    """Were it to wait, no two creates could commit together."""
    app = await make_app(idle)
    elsewhere = PostgresDoorbell(database_url)
    ear = Ear(elsewhere)
    await elsewhere.open()

    async with db.transaction() as tx:
        await tx.fetch(HOLD)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await app.tasks.create(idle, None, **options)  # type: ignore[arg-type]
            await ear.until(lambda ear: bool(ear.heard))

    await elsewhere.close()
    assert isinstance(app.doorbell, PostgresDoorbell)
    await app.doorbell.close()  # what it sends is heard before it knows that it was sent
    assert app.doorbell.sent == 1


@pytest.mark.contract("K2")
def test_nothing_that_claims_or_settles_rings_inside_of_its_transaction() -> None:
    """Such a transaction takes a lock of the whole instance when it commits: no two could commit together."""
    files = [file for file in SOURCES.rglob("*.sql") if "migrations" not in file.parts]
    texts = {str(file.relative_to(SOURCES)): re.sub("--.*", "", file.read_text(encoding="utf-8")) for file in files}

    assert len(texts) > 200
    assert {name for name, text in texts.items() if re.search(r"\bnotify\b|pg_notify", text, re.I)} == RINGS_INSIDE


async def test_a_create_for_later_rings_when_it_is_stored(make_app: MakeApp, database_url: str) -> None:
    app = await make_app(idle)
    elsewhere = PostgresDoorbell(database_url)
    ear, due = Ear(elsewhere), Ear(elsewhere, "due")
    await elsewhere.open()

    await app.tasks.create(idle, at=datetime.now(UTC) + timedelta(hours=1))

    await due.until(lambda ear: bool(ear.heard))
    await elsewhere.close()
    assert ear.heard == []


@pytest.mark.contract("K2")
async def test_who_creates_in_a_stream_rings_at_once_and_then_for_all_that_followed(
    make_app: MakeApp, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell_pg, "PACE_SECONDS", 3600.0)
    app = await make_app(idle)
    elsewhere = PostgresDoorbell(database_url)
    ear = Ear(elsewhere)
    await elsewhere.open()

    await app.tasks.create(idle)
    await ear.until(lambda ear: bool(ear.hints))
    for queue in ("mail", "post", "mail"):
        await app.tasks.create(idle, queue=queue)
    await app.tasks.create_many(idle, [{"n": 1}, {"n": 2}], queue="many")
    at_once = ear.hints
    assert isinstance(app.doorbell, PostgresDoorbell)
    await app.doorbell.close()  # it waits for no hour
    await ear.until(lambda ear: "many\x1fdefault" in ear.hints)
    await elsewhere.close()

    assert at_once == {"default\x1fdefault"}
    assert ear.hints == {f"{queue}\x1fdefault" for queue in ("default", "mail", "post", "many")}
    assert app.doorbell.sent == 1


@pytest.mark.contract("K2")
async def test_a_ring_that_was_put_off_comes_by_itself(
    make_app: MakeApp, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell_pg, "PACE_SECONDS", 0.5)
    app = await make_app(idle)
    elsewhere = PostgresDoorbell(database_url)
    ear = Ear(elsewhere)
    await elsewhere.open()

    queues = [f"queue{n}" for n in range(20)]
    for queue in queues:
        await app.tasks.create(idle, queue=queue)

    await ear.until(lambda ear: ear.hints == {f"{queue}\x1fdefault" for queue in queues})
    await elsewhere.close()
    assert isinstance(app.doorbell, PostgresDoorbell)
    await app.doorbell.close()  # what it sends is heard before it knows that it was sent
    assert app.doorbell.sent >= 1


@pytest.mark.contract("K2")
async def test_the_next_create_takes_along_what_was_put_off(
    make_app: MakeApp, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell_pg, "PACE_SECONDS", 3600.0)
    app = await make_app(idle)
    bell, elsewhere = app.doorbell, PostgresDoorbell(database_url)
    ear = Ear(elsewhere)
    await elsewhere.open()
    assert isinstance(bell, PostgresDoorbell)
    for queue in ("default", "mail"):
        await app.tasks.create(idle, queue=queue)

    bell._quiet.clear()  # the moment is over
    await app.tasks.create(idle, queue="post")

    await ear.until(lambda ear: frozenset({"mail\x1fdefault", "post\x1fdefault"}) in ear.heard)
    assert bell._later is None
    await bell.close()
    await elsewhere.close()
    assert bell.sent == 0


@pytest.mark.contract("K2")
@pytest.mark.parametrize("said", ["rung", "nobody", None])
async def test_what_was_put_off_after_a_transaction_began_does_not_go_with_it(
    database_url: str, said: str | None
) -> None:
    """It may have committed before that was stored; so may one that could not ring."""
    bell = PostgresDoorbell(database_url)
    await bell.open()
    ring = bell.inside("ready", ["mail"])
    assert ring is not None

    bell.ring("ready", ["post"], inside=Inside(None, None))
    ring.answer(said)
    bell.ring("ready", ["mail"], inside=ring)

    assert bell._late.take() == {"ready": frozenset({"post"})}
    await bell.close()


@pytest.mark.contract("K2")
async def test_what_is_put_off_is_rung_for_though_its_creator_has_gone_away(
    make_app: MakeApp, database_url: str, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be stored all the same."""
    monkeypatch.setattr(doorbell_pg, "PACE_SECONDS", 3600.0)
    app = await make_app(idle)
    elsewhere = PostgresDoorbell(database_url)
    ear = Ear(elsewhere)
    await elsewhere.open()
    await app.tasks.create(idle)
    await ear.until(lambda ear: bool(ear.hints))

    async with db.transaction() as tx:
        await tx.fetch("lock table ferryman.tasks in share mode")
        creating = asyncio.ensure_future(app.tasks.create(idle, queue="mail"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await tx.fetch("select from pg_locks where not granted"):  # noqa: ASYNC110 - it is the server that knows
                await asyncio.sleep(0)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
    await app.doorbell.close()

    await ear.until(lambda ear: "mail\x1fdefault" in ear.hints)
    await elsewhere.close()


@pytest.mark.contract("K2")
async def test_a_doorbell_that_is_closed_puts_nothing_off(database_url: str) -> None:
    bell = PostgresDoorbell(database_url)
    await bell.open()
    await bell.close()

    bell.ring("ready", inside=Inside(None, None))

    assert bell._later is None


@pytest.mark.contract("K2")
async def test_a_listener_of_the_same_process_hears_of_each_at_once(
    make_app: MakeApp, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell_pg, "PACE_SECONDS", 3600.0)
    app = await make_app(idle)
    here, elsewhere = Ear(app.doorbell), PostgresDoorbell(database_url)
    Ear(elsewhere)
    await elsewhere.open()

    for queue in ("mail", "post"):
        await app.tasks.create(idle, queue=queue)

    await here.until(lambda ear: ear.hints >= {"mail\x1fdefault", "post\x1fdefault"})
    await elsewhere.close()


@pytest.mark.contract("K2")
async def test_nobody_is_rung_where_nobody_listens(
    make_app: MakeApp, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell_pg, "PACE_SECONDS", 3600.0)  # who was not there is no reason to put off a ring
    app = await make_app(idle)
    elsewhere = PostgresDoorbell(database_url)
    told: asyncio.Queue[object] = asyncio.Queue()
    stranger = await asyncpg.connect(database_url)
    await stranger.add_listener(channel("ferryman", "ready"), lambda *said: told.put_nowait(said[3]))

    await app.tasks.create(idle)
    await app.tasks.create_many(idle, [{"n": 1}, {"n": 2}])
    await stranger.execute("select 1")
    before = told.qsize()
    Ear(elsewhere)
    await elsewhere.open()
    await app.tasks.create(idle)
    await asyncio.wait_for(told.get(), PATIENCE_SECONDS)
    await elsewhere.close()
    await stranger.close()

    assert isinstance(app.doorbell, PostgresDoorbell)
    assert (before, app.doorbell.sent) == (0, 0)


@pytest.mark.contract("K2")
async def test_who_comes_to_listen_sees_what_a_create_did_not_ring_for(database_url: str, db: Database) -> None:
    """Such a create holds the lock of listeners until it has committed."""
    bell = PostgresDoorbell(database_url)
    ear = Ear(bell, "done")
    await bell.open()
    async with db.transaction() as tx:
        await tx.fetch("select pg_advisory_xact_lock(hashtextextended($1, 0))", channel("ferryman", "ready"))
        late = Ear(bell)
        waiting = "select from pg_locks where locktype = 'advisory' and not granted"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await tx.fetch(waiting):  # noqa: ASYNC110 - it is the server that knows
                await asyncio.sleep(0)
        too_soon = list(late.heard)
    await late.until(lambda ear: bool(ear.heard))
    await bell.close()

    assert (too_soon, late.heard, ear.heard) == ([], [frozenset()], [])


async def test_the_listeners_here_hear_a_ring_that_went_along(make_app: MakeApp) -> None:
    app = await make_app(idle)
    ear = Ear(app.doorbell)

    await app.tasks.create(idle)

    await ear.until(lambda ear: ear.hints == {"default\x1fdefault"})
