"""How tokens are spelled, what is kept of them, and what may be asked for."""

from contextlib import nullcontext
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from starlette.requests import Request

from ferryman.access import rules
from ferryman.access.model import Scope, allows
from ferryman.http import forgery
from ferryman.http.rates import Open, Rates
from ferryman.kernel import errors
from ferryman.relays import webhook


@pytest.mark.contract("S6")
def test_a_token_names_its_row_and_only_its_hash_is_kept() -> None:
    one, other = (rules.draft("ci", tenant="acme", scopes="read") for _ in range(2))

    assert rules.id_of(one.text) == one.id
    assert one.hash == rules.digest(one.text) != other.hash
    assert len(one.text.rpartition("_")[2]) * 4 == 192
    assert one.text not in repr(one.hash)


@pytest.mark.contract("S6")
@pytest.mark.parametrize(
    "text",
    ["", "fm_", "fm_x_y", f"fm_{UUID(int=1).hex}_{'0' * 47}", f"FM_{UUID(int=1).hex}_{'0' * 48}",
     "fm_" + "\N{ARABIC-INDIC DIGIT ZERO}" * 32 + "_" + "0" * 48,
     f" fm_{UUID(int=1).hex}_{'0' * 48}", f"fm_{UUID(int=1).hex}_{'0' * 48}\n", "\0", "fm_" + "0" * 10_000],
)  # fmt: skip
def test_what_is_no_token_is_not_looked_up(text: str) -> None:
    assert rules.id_of(text) is None


@pytest.mark.contract("S6", "R7")
async def test_secrets_are_compared_in_a_time_that_tells_nothing(compared: list[Any]) -> None:
    """Hashes of tokens, the word of forms, signatures of calls; that a token comes to it is in test_tokens.py."""
    assert rules.same(b"x" * 32, b"x" * 32)
    assert not rules.same(b"x" * 32, b"y" * 32)
    assert compared == [(b"x" * 32, b"x" * 32), (b"x" * 32, b"y" * 32)]
    for word in ("word", "wrod"):
        compared.clear()
        headers = [(b"x-csrf-token", word.encode())]
        asked = Request({"type": "http", "method": "POST", "headers": headers})
        with nullcontext() if word == "word" else pytest.raises(errors.Forbidden):
            await forgery.check(asked, "word", always=True)
        assert compared == [(word.encode(), b"word")]
    secret, older = (webhook.secret_of("key", UUID(int=1), version) for version in (2, 1))
    signed = webhook.sign(secret, id="1", timestamp=1, body=b"{}")
    # Each with each, also after one has fitted.
    compared.clear()
    told = {webhook.ID: "1", webhook.TIMESTAMP: "1", webhook.SIGNATURE: f"{signed} v1,other"}
    assert webhook.verify(b"{}", told, secret=[secret, older], now=1) == "1"
    assert len(compared) == 4
    compared.clear()
    with pytest.raises(errors.SignatureInvalid):
        webhook.verify(b"{}", told, secret=older, now=1)
    assert [other for _, other in compared] == [signed.encode(), b"v1,other"]


@pytest.mark.contract("S6")
@pytest.mark.parametrize(
    ("held", "may"),
    [
        ([Scope.READ], {Scope.READ}),
        ([Scope.WRITE], {Scope.READ, Scope.WRITE}),
        ([Scope.WORKER], {Scope.WORKER}),
        ([Scope.READ, Scope.WORKER], {Scope.READ, Scope.WORKER}),
        ([Scope.ADMIN], set(Scope)),
        ([], set()),
    ],
)
def test_a_scope_allows_what_it_includes_and_no_more(held: list[Scope], may: set[Scope]) -> None:
    assert {scope for scope in Scope if allows(held, scope)} == may


@pytest.mark.contract("S6", "K20")
@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "x" * 300}, "name"),
        ({"name": 7}, "name"),
        ({"tenant": "a/b"}, "tenant"),
        ({"tenant": "**"}, "tenant"),
        ({"scopes": []}, "scopes"),
        ({"scopes": "root"}, "scopes"),
        ({"scopes": ["read", None]}, "scopes"),
        ({"lasts": "soon"}, "lasts"),
        ({"lasts": 0}, "lasts"),
        ({"lasts": -5}, "lasts"),
        ({"lasts": float("nan")}, "lasts"),
        ({"lasts": "100000000d"}, "lasts"),
    ],
    ids=str,
)
def test_what_cannot_be_a_token_is_refused_with_its_field(asked: dict[str, Any], field: str) -> None:
    whole = {"name": "ci", "tenant": "acme", "scopes": ["read"], "lasts": None} | asked
    with pytest.raises(errors.TokenInvalid) as refusal:
        rules.draft(whole.pop("name"), **whole)
    assert refusal.value.details["field"] == field


@pytest.mark.contract("S6")
def test_scopes_are_kept_once_and_in_order_and_a_time_may_be_written() -> None:
    made = rules.draft("ci", tenant="*", scopes=["worker", "read", "read"], lasts="90d")

    assert made.scopes == (Scope.READ, Scope.WORKER)
    assert made.lasts == timedelta(days=90)


@pytest.mark.contract("S6")
def test_a_bucket_fills_at_its_rate_and_no_further_than_its_burst() -> None:
    now = [100.0]
    rates = Rates(rate=2, burst=3, clock=lambda: now[0])

    assert [rates.take("a") for _ in range(4)] == [0, 0, 0, 1]
    assert rates.take("b") == 0
    now[0] += 0.5
    assert (rates.wait("a"), rates.take("a"), rates.take("a")) == (0, 0, 1)
    now[0] += 1000
    assert [rates.take("a") for _ in range(4)] == [0, 0, 0, 1]


@pytest.mark.contract("S6")
def test_so_many_are_remembered_and_the_longest_silent_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferryman.http.rates.MOST", 2)
    rates = Rates(rate=1, burst=1, clock=lambda: 0.0)
    for key in ("a", "b", "a", "c"):
        rates.take(key)

    assert (rates.wait("a"), rates.wait("b"), rates.wait("c")) == (1, 0, 1)


@pytest.mark.contract("S6")
def test_what_is_open_is_bounded_in_all_and_for_each() -> None:
    room = Open(most=3, each=2)

    assert [room.enter(key) for key in ("a", "a", "a", "b", "c")] == [True, True, False, True, False]
    room.leave("a")
    assert room.enter("c")
