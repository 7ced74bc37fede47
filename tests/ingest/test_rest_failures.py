"""I8: what becomes of a request to a server with bad habits."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from ferryman.ingest.ports import Failure, FetchFailed, Page, Request
from ferryman.ingest.sources.rest import RestSource
from ferryman.kernel import errors
from tests.ingest.server import Answer, always, hang, page, serving, truncate

pytestmark = pytest.mark.contract("I8", "I14")

ASKED = Request("shop", "orders", "HARVEST", None)
SECRET = "s3cr3t/+ value"


async def fetch(answer: Answer, request: Request = ASKED, **declared: Any) -> Page:
    async with serving(answer) as server:
        source = RestSource(**{"url": f"{server.url}/{{endpoint}}", "items": "items", **declared})
        try:
            return await source.fetch(request)
        finally:
            await source.close()


async def failed(answer: Answer, request: Request = ASKED, **declared: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        await fetch(answer, request, **declared)
    return caught.value


def status(number: int, **headers: str) -> Callable[[], web.Response]:
    return lambda: page(
        {"why": "no"}, status=number, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


LATER = {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "60"}


@pytest.mark.parametrize(
    ("response", "kind", "wait"),
    [
        (status(429), Failure.SLOW_DOWN, None),
        (status(429, Retry_After="7"), Failure.SLOW_DOWN, 7),
        (status(429, **LATER), Failure.SLOW_DOWN, 60),
        (status(429, RateLimit='"default";r=0;t=30'), Failure.SLOW_DOWN, 30),
        (status(500), Failure.RETRY, None),
        (status(503, Retry_After="20"), Failure.RETRY, 20),
        (status(401), Failure.AUTH, None),
        (status(403), Failure.AUTH, None),
        (status(403, **LATER), Failure.SLOW_DOWN, 60),
        (status(400), Failure.BATCH, None),
        (status(404), Failure.BATCH, None),
        (status(418, Retry_After="nonsense"), Failure.BATCH, None),
        (status(429, Retry_After="99999999999"), Failure.SLOW_DOWN, 86400),
    ],
)
async def test_a_status_says_what_to_do(response: Any, kind: Failure, wait: float | None) -> None:
    error = await failed(always(response))

    assert (error.kind, error.status) == (kind, response().status)
    assert error.retry_after == (None if wait is None else timedelta(seconds=wait))
    assert str(error) == f'HTTP {error.status}: {{"why":"no"}}'


async def test_a_date_is_measured_by_the_servers_own_clock() -> None:
    there = datetime(2001, 1, 1, tzinfo=UTC)
    error = await failed(
        always(
            status(
                503,
                Date=format_datetime(there, usegmt=True),
                Retry_After=format_datetime(there + timedelta(seconds=90), usegmt=True),
            )
        )
    )

    assert error.retry_after == timedelta(seconds=90)


async def test_a_status_that_was_declared_to_be_worth_a_retry_is_one() -> None:
    assert (await failed(always(status(409)), retry_on=[409])).kind is Failure.RETRY


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (hang, Failure.RETRY, "no whole answer within 0.2 s"),
        (truncate, Failure.RETRY, "the answer was cut short"),
        (always(lambda: web.Response(text='{"items": [')), Failure.RETRY, "the answer is not JSON"),
        (always(lambda: web.Response(text="<html>busy</html>")), Failure.RETRY, "the answer is not JSON"),
        (always(lambda: page({"data": []})), Failure.BATCH, "items: expected a list, got MISSING"),
        (always(lambda: page({"items": {"id": 1}})), Failure.BATCH, "items: expected a list"),
        (always(lambda: page({"items": ["x" * 5000]})), Failure.BATCH, "the answer is larger than 4096 bytes"),
        (always(lambda: page({}, status=302)), Failure.BATCH, "HTTP 302 leads nowhere"),
    ],
)
async def test_what_is_no_answer_is_told_apart(answer: Answer, kind: Failure, said: str) -> None:
    error = await failed(answer, timeout=0.2 if answer is hang else 30.0, body_limit=4096)

    assert error.kind is kind
    assert said in str(error)


async def test_nobody_there_is_a_retry() -> None:
    async with serving(hang) as server:
        url = server.url
    source = RestSource(url=url)
    with pytest.raises(FetchFailed) as caught:
        await source.fetch(ASKED)
    await source.close()

    assert (caught.value.kind, caught.value.status) == (Failure.RETRY, None)


async def test_a_body_without_a_length_is_bounded_too() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b"[" * 1024)
        return response

    error = await failed(endless, body_limit=10_000)

    assert "larger than 10000 bytes" in str(error)


async def test_a_page_of_five_megabytes_comes_whole() -> None:
    items = [{"id": number, "text": "x" * 5000} for number in range(1000)]

    found = await fetch(always(lambda: page({"items": items})))

    assert len(found.items) == 1000
    assert found.size > 5_000_000


# Secrets and addresses


async def test_a_secret_goes_out_and_is_told_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    caplog.set_level(logging.DEBUG)

    async def echo(request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == f"Bearer {SECRET}"
        return page({"got": request.headers["Authorization"]}, status=400)

    error = await failed(echo, auth={"header": "Authorization", "env": "SHOP_TOKEN", "form": "Bearer {}"})

    assert "***" in str(error)
    assert SECRET not in f"{error} {error!r} {caplog.text}"
    assert error.__cause__ is None


async def test_a_secret_of_the_query_is_not_part_of_a_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)

    async def linked(request: web.Request) -> web.StreamResponse:
        assert request.query.getall("key") == [SECRET]
        return page(
            {"items": [{"id": request.query.get("at")}], "next": str(request.url.with_query(at="2", key=SECRET))}
        )

    async with serving(linked) as server:
        source = RestSource(
            url=f"{server.url}/orders",
            items="items",
            paging={"kind": "URL", "next": "next"},
            auth={"query": "key", "env": "SHOP_TOKEN"},
        )
        first = await source.fetch(ASKED)
        assert first.next == f"url:{server.url}/orders?at=2"
        second = Request("shop", "orders", "HARVEST", None, position=first.next)
        with pytest.raises(FetchFailed, match="the same one again"):
            await source.fetch(second)
        await source.close()
    assert "s3cr3t" not in repr(source)


async def test_a_missing_secret_is_told_at_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_TOKEN", raising=False)
    source = RestSource(url="http://127.0.0.1:1", auth={"header": "X-Key", "env": "SHOP_TOKEN"})

    with pytest.raises(errors.IngestSecretMissing) as caught:
        source.ready()
    assert caught.value.code == "INGEST_SECRET_MISSING"
    assert "SHOP_TOKEN" in str(caught.value)
    with pytest.raises(FetchFailed) as refused:
        await source.fetch(ASKED)
    assert refused.value.kind is Failure.AUTH


async def test_no_request_leaves_for_another_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    auth = {"header": "X-Key", "env": "SHOP_TOKEN"}
    async with serving(always(lambda: page({"items": []}))) as thief:
        away = always(lambda: page({}, status=307, headers={"Location": f"{thief.url}/orders"}))
        moved = await failed(away, auth=auth)
        lured = await failed(
            always(lambda: page({"items": [{"id": 1}], "next": f"{thief.url}/orders"})),
            Request("shop", "orders", "HARVEST", None, position=f"url:{thief.url}/orders"),
            auth=auth,
            paging={"kind": "URL", "next": "next"},
        )

        assert moved.kind is lured.kind is Failure.BATCH
        assert "is not where this source is declared" in str(moved)
        assert thief.asked == []


async def test_a_redirect_at_home_is_followed() -> None:
    async def moved(request: web.Request) -> web.StreamResponse:
        if request.path == "/orders":
            return page({}, status=308, headers={"Location": "/v2/orders?a=b"})
        return page({"items": [dict(request.query)]})

    assert (await fetch(moved)).items == [{"a": "b"}]


async def test_the_callers_own_check_sees_every_address() -> None:
    seen: list[str] = []

    async def forbid(url: str) -> None:
        seen.append(url)
        raise PermissionError("not from here")

    error = await failed(hang, check=forbid)

    assert error.kind is Failure.BATCH
    assert "not from here" in str(error)
    assert seen[0].endswith("/orders")
