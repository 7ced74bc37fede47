"""Tokens and sessions in the database, and what is remembered of them (S6)."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ferryman import Ferryman
from ferryman.access import rules
from ferryman.access.known import TOPIC
from ferryman.access.model import Scope
from ferryman.app.tokens import ALL
from ferryman.kernel import errors
from ferryman.testing import travel
from tests.access.conftest import MakeApp
from tests.patience import PATIENCE_SECONDS

MINUTE = timedelta(minutes=1)


async def rows(app: Ferryman, query: str, *args: Any) -> list[Any]:
    async with app.database.session() as tx:
        return list(await tx.fetch(query, *args))


async def later(app: Ferryman, by: timedelta) -> None:
    async with app.database.session() as tx:
        await travel(tx, by)
    app.tokens.known.forget()


@pytest.mark.contract("S6")
async def test_of_a_token_only_its_hash_is_stored(app: Ferryman) -> None:
    made = await app.tokens.create("ci", scopes=["write"], lasts="1h")

    assert made.text not in repr(made)
    for table in ("access_tokens", "events"):
        [row] = await rows(app, f"select string_agg(t::text, ' ') as all from ferryman.{table} as t")
        assert made.text.rpartition("_")[2] not in (row["all"] or "")
    grant = await app.tokens.known.token(made.text)
    assert grant is not None
    assert (grant.name, grant.tenant, grant.scopes) == ("ci", "default", frozenset({Scope.WRITE}))
    assert made.token.expires_at == made.token.created_at + timedelta(hours=1)


@pytest.mark.contract("S6")
async def test_a_wrong_secret_opens_nothing(app: Ferryman) -> None:
    made = await app.tokens.create("ci")
    id, _, secret = made.text.rpartition("_")

    assert await app.tokens.known.token(f"{id}_{secret[::-1]}") is None
    assert await app.tokens.known.token(f"fm_{UUID(int=5).hex}_{secret}") is None
    assert await app.tokens.sign_in(f"{id}_{secret[::-1]}") is None
    assert await app.tokens.sign_in("nothing") is None


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock by which answers are kept, to be moved."""
    now = [1000.0]
    monkeypatch.setattr("ferryman.access.known.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.mark.contract("S6")
async def test_what_is_kept_of_a_token_ends_with_it(make_app: MakeApp, hands: list[float]) -> None:
    app = await make_app(doorbell="none", http={"token_kept": "5m"})
    brief = await app.tokens.create("brief", lasts=60)
    long = await app.tokens.create("long")
    known, looks = app.tokens.known, Counted(app)
    assert await known.token(brief.text) is not None
    assert await known.token(long.text) is not None

    async with app.database.session() as tx:
        await travel(tx, timedelta(seconds=61))
    hands[0] += 61

    assert await known.token(brief.text) is None
    assert await known.token(long.text) is not None
    assert looks.count == 3  # of what lasts longer the answer was at hand still


@pytest.mark.contract("S6")
async def test_a_token_ends_at_its_time_and_when_it_is_revoked(app: Ferryman) -> None:
    brief = await app.tokens.create("brief", lasts=60)
    long = await app.tokens.create("long")
    assert await app.tokens.known.token(brief.text) is not None

    await later(app, timedelta(seconds=61))
    assert await app.tokens.known.token(brief.text) is None
    assert await app.tokens.known.token(long.text) is not None

    assert await app.tokens.revoke("long", reason="lost") is True
    assert await app.tokens.revoke(long.token.id) is False
    assert await app.tokens.known.token(long.text) is None
    told = await rows(
        app, "select to_state, reason_message from ferryman.events where subject = $1 order by id", long.token.id
    )
    assert [(row["to_state"], row["reason_message"]) for row in told] == [("active", None), ("revoked", "lost")]


@pytest.mark.contract("S6", "K12")
async def test_a_name_is_one_token_of_a_tenant_until_it_is_revoked(app: Ferryman) -> None:
    first = await app.tokens.create("ci")
    await app.tokens.create("ci", tenant="rival")
    await app.tokens.create("ci", tenant=ALL)
    with pytest.raises(errors.TokenDuplicate):
        await app.tokens.create("ci")
    await app.tokens.revoke("ci")
    again = await app.tokens.create("ci")

    assert (await app.tokens.get("ci")).id == again.token.id
    assert (await app.tokens.get(first.token.id)).revoked_at is not None
    assert [each.tenant for each in await app.tokens.list()] == ["default", "*", "rival"]
    assert len(await app.tokens.list(revoked=True)) == 4
    assert [each.id for each in await app.tokens.list(tenant="default", revoked=True, before=again.token.id)] == [
        first.token.id
    ]
    with pytest.raises(errors.TokenNotFound):
        await app.tokens.revoke("nobody")
    with pytest.raises(errors.TokenNotFound):
        await app.tokens.revoke("ci", tenant="third")


@pytest.mark.contract("S6")
async def test_when_a_token_was_used_is_written_rarely(app: Ferryman) -> None:
    made = await app.tokens.create("ci")

    async def used() -> Any:
        app.tokens.known.forget()
        assert await app.tokens.known.token(made.text) is not None
        return (await app.tokens.get("ci")).last_used_at

    assert made.token.last_used_at is None
    first = await used()
    assert first is not None
    await later(app, timedelta(minutes=4))
    assert await used() == first
    await later(app, timedelta(minutes=2))
    assert await used() > first


@pytest.mark.contract("S6")
async def test_a_session_ends_at_its_time_by_leaving_and_with_its_token(make_app: MakeApp) -> None:
    app = await make_app(doorbell="none", http={"session": "10m"})
    made = await app.tokens.create("ada", scopes="admin")

    async def enter() -> str:
        begun = await app.tokens.sign_in(made.text)
        assert begun is not None
        grant = await app.tokens.known.session(begun.secret)
        assert grant is not None
        assert (grant.token_id, grant.scopes) == (made.token.id, frozenset({Scope.ADMIN}))
        return begun.secret

    timed, left, revoked = await enter(), await enter(), await enter()
    [row] = await rows(app, "select string_agg(t::text, ' ') as all from ferryman.access_sessions as t")
    assert timed not in row["all"]

    assert await app.tokens.sign_out(left) is True
    assert await app.tokens.sign_out(left) is False
    assert await app.tokens.known.session(left) is None
    await later(app, timedelta(minutes=11))
    assert await app.tokens.known.session(timed) is None
    revoked = await enter()
    other = await app.tokens.sign_in((await app.tokens.create("bob")).text)
    assert other is not None
    await app.tokens.revoke("ada")
    assert await app.tokens.known.session(revoked) is None
    assert await app.tokens.known.session(other.secret) is not None
    assert len(await rows(app, "select from ferryman.access_sessions")) == 1
    assert await app.tokens.sign_in(made.text) is None


@pytest.mark.contract("S6")
async def test_a_session_does_not_outlast_its_token_and_old_ones_leave(app: Ferryman) -> None:
    brief = await app.tokens.create("brief", lasts=60)
    long = await app.tokens.create("long")
    begun = await app.tokens.sign_in(brief.text)
    assert begun is not None
    assert begun.ends_at == brief.token.expires_at
    await rows(
        app,
        "insert into ferryman.access_sessions (hash, token_id, created_at, ends_at)"
        " select sha256(n::text::bytea), $1, ferryman.clock(), ferryman.clock() from generate_series(1, 149) as n",
        long.token.id,
    )
    await later(app, timedelta(days=2))

    async def left() -> int:
        await app.tokens.sign_in(long.text)
        return len(await rows(app, "select from ferryman.access_sessions"))

    # A hundred at a time, and none that lives.
    assert [await left(), await left(), await left()] == [51, 2, 3]


@pytest.mark.contract("S6")
async def test_a_session_of_a_token_that_was_revoked_meanwhile_does_not_begin(app: Ferryman) -> None:
    made = await app.tokens.create("ada")
    from ferryman.access import store  # the store's own statement, as the loser of a race sees it

    await app.tokens.revoke("ada")
    async with app.database.transaction() as tx:
        assert await store.begin(tx, made.token.id, hash=b"x" * 32, lasts=MINUTE) is None


class Counted:
    """Counts the looks into the database."""

    def __init__(self, app: Ferryman) -> None:
        self.count = 0
        self.first = asyncio.Event()
        session = app.tokens.known._session

        def counting() -> Any:
            self.count += 1
            self.first.set()
            return session()

        app.tokens.known._session = counting


@pytest.mark.contract("S6")
async def test_a_request_costs_no_round_trip_and_those_at_one_time_share_one(app: Ferryman) -> None:
    made = await app.tokens.create("ci")
    known, looks = app.tokens.known, Counted(app)

    answers = await asyncio.gather(*(known.token(made.text) for _ in range(50)))
    for _ in range(50):
        await known.token(made.text)
        await known.token(f"fm_{UUID(int=9).hex}_{'0' * 48}")

    assert all(answers)
    assert looks.count == 2


@pytest.mark.contract("S6")
async def test_where_no_ring_comes_a_revoked_token_is_let_in_for_seconds_only(
    make_app: MakeApp, hands: list[float]
) -> None:
    app = await make_app(doorbell="none", http={"token_kept": "5s"})
    made = await app.tokens.create("ci")
    assert await app.tokens.known.token(made.text) is not None

    await rows(app, "update ferryman.access_tokens set revoked_at = ferryman.clock()")
    hands[0] += 4.9
    assert await app.tokens.known.token(made.text) is not None
    hands[0] += 0.2

    assert await app.tokens.known.token(made.text) is None


@pytest.mark.contract("S6")
async def test_a_token_is_compared_in_a_time_that_tells_nothing(app: Ferryman, compared: list[Any]) -> None:
    made = await app.tokens.create("ci")
    wrong = made.text[:-1] + ("0" if made.text[-1] != "0" else "1")
    assert await app.tokens.known.token(wrong) is None
    assert await app.tokens.sign_in(wrong) is None
    assert await app.tokens.sign_in(made.text) is not None

    kept = rules.digest(made.text)
    assert compared == [(kept, rules.digest(wrong)), (kept, rules.digest(wrong)), (kept, kept)]


@pytest.mark.contract("S6", "K2")
async def test_another_process_hears_of_a_revoked_token_by_the_doorbell(make_app: MakeApp) -> None:
    here, there = await make_app(), await make_app()
    made = await here.tokens.create("ci")
    assert await there.tokens.known.token(made.text) is not None
    heard = asyncio.Event()
    there.doorbell.listen(TOPIC, lambda _hints: heard.set())

    await here.tokens.revoke("ci")

    await asyncio.wait_for(heard.wait(), PATIENCE_SECONDS)
    assert await there.tokens.known.token(made.text) is None


@pytest.mark.contract("S6")
async def test_an_answer_that_was_on_its_way_when_the_bell_rang_is_not_kept(app: Ferryman) -> None:
    made = await app.tokens.create("ci")
    known, looks = app.tokens.known, Counted(app)
    asking = asyncio.create_task(known.token(made.text))
    await looks.first.wait()

    known.forget()
    assert await asking is not None
    await known.token(made.text)

    assert looks.count == 2


@pytest.mark.contract("S6")
async def test_only_so_many_answers_are_kept(app: Ferryman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferryman.access.known.MOST", 3)
    known = app.tokens.known
    for number in range(5):
        await known.token(f"fm_{UUID(int=number).hex}_{'0' * 48}")

    assert len(known._answers) == 3


@pytest.mark.contract("S6")
async def test_a_server_is_closed_by_a_token_and_opened_only_by_revoking(app: Ferryman) -> None:
    known = app.tokens.known
    assert await known.closed() is False
    await app.tokens.create("brief", lasts=60)
    assert await known.closed() is True
    await later(app, timedelta(hours=1))
    assert await known.closed() is True
    assert await app.tokens.usable() is False
    await app.tokens.revoke("brief")
    assert await known.closed() is False
    await app.tokens.create("long")
    assert await app.tokens.usable() is True
    await app.tokens.revoke("long")
    assert (await app.tokens.usable(), await known.closed()) == (False, False)


def test_the_word_of_forms_does_not_tell_the_session() -> None:
    secret = rules.session_secret()
    assert secret not in rules.csrf(secret)
    assert rules.csrf(secret) != rules.csrf(rules.session_secret())
