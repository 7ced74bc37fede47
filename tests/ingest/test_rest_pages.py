"""I14: pages that follow each other, in five ways; and walks that get nowhere (I8)."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from ferryman.ingest.ports import Failure, FetchFailed, Page, Request
from ferryman.ingest.sources.rest import RestSource
from ferryman.ingest.window import Window
from ferryman.kernel import errors
from tests.ingest.server import Answer, Server, page, serving

pytestmark = pytest.mark.contract("I14")

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
RECORDS = [{"id": n, "at": (NOON + timedelta(seconds=n)).isoformat()} for n in range(25)]


async def walk(
    answer: Answer, *, asked: Window | None = None, most: int = 50, position: str = "start", **declared: Any
) -> tuple[list[Page], list[str], Server]:
    """Go from page to page as an executor does."""
    pages, positions = [], [position]
    async with serving(answer) as server:
        source = RestSource(**{"url": f"{server.url}/{{endpoint}}", "items": "items", **declared})
        try:
            for _ in range(most):
                pages.append(await source.fetch(Request("shop", "orders", "HARVEST", asked, position=positions[-1])))
                if not pages[-1].has_next:
                    assert pages[-1].next is None
                    break
                assert pages[-1].next is not None
                positions.append(pages[-1].next)
        finally:
            await source.close()
    return pages, positions, server


def ids(pages: Sequence[Page]) -> list[int]:
    return [item["id"] for each in pages for item in each.items]


def some(first: int, count: int) -> list[dict[str, Any]]:
    return RECORDS[first : first + count]


ALL = [record["id"] for record in RECORDS]


async def test_pages_by_number() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        number, size = int(request.query["page"]), int(request.query["per_page"])
        return page({"items": some((number - 1) * size, size)})

    pages, positions, server = await walk(answer, paging={"kind": "PAGE", "size": 10, "size_param": "per_page"})

    assert ids(pages) == ALL
    assert positions == ["start", "page:2", "page:3"]
    assert server.queries()[0] == {"page": "1", "per_page": "10"}


async def test_pages_by_number_from_zero_with_a_count_of_pages() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return page({"items": some(int(request.query["p"]) * 5, 5), "pages": 5})

    declared = {"kind": "page", "param": "p", "first": 0, "size": 5, "pages": "pages"}
    pages, positions, _ = await walk(answer, paging=declared)

    assert ids(pages) == ALL
    assert positions == ["start", "page:1", "page:2", "page:3", "page:4"]


async def test_pages_by_offset_end_at_the_total() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        # It gives fewer than it is asked for: the total tells, not the size.
        return page({"items": some(int(request.query.get("skip", "0")), 5), "total": "25"})

    declared = {"kind": "OFFSET", "param": "skip", "size": 10, "size_param": "take", "total": "total"}
    pages, positions, server = await walk(answer, paging=declared)

    assert ids(pages) == ALL
    assert positions == ["start", "offset:5", "offset:10", "offset:15", "offset:20"]
    assert "skip" not in server.queries()[0]


async def test_pages_by_token() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        at = int(request.query.get("cursor", "t0")[1:])
        return page({"items": some(at, 10), "meta": {"next": f"t{at + 10}" if at < 20 else None}})

    pages, positions, _ = await walk(answer, paging={"kind": "TOKEN", "next": "meta.next"})

    assert ids(pages) == ALL
    assert positions == ["start", "token:t10", "token:t20"]


async def test_a_token_in_a_header_and_a_flag_that_ends_it() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        at = int(request.query.get("cursor", "0"))
        return page({"items": some(at, 10), "more": at < 20}, headers={"X-Next": str(at + 10)})

    declared = {"kind": "TOKEN", "next": "header:x-next", "has_next": "more"}
    pages, positions, _ = await walk(answer, paging=declared)

    assert ids(pages) == ALL
    assert positions == ["start", "token:10", "token:20"]


async def test_pages_by_address_in_the_answer_or_in_a_link() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        at = int(request.query.get("at", "0"))
        links = {"Link": f'</orders?at=0>; rel="first", </orders?at={at + 10}>; rel="next"'} if at < 20 else {}
        return page({"items": some(at, 10), "next": f"?at={at + 10}" if at < 20 else ""}, headers=links)

    for where in ("next", "link:next"):
        pages, positions, server = await walk(answer, paging={"kind": "URL", "next": where})

        assert ids(pages) == ALL
        assert positions == ["start", f"url:{server.url}/orders?at=10", f"url:{server.url}/orders?at=20"]


async def test_pages_by_time() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        since = datetime.fromisoformat(request.query["since"])
        later = [record for record in RECORDS if datetime.fromisoformat(str(record["at"])) >= since]
        return page({"items": later[:10]})

    pages, positions, server = await walk(
        answer,
        asked=Window(NOON, NOON + timedelta(hours=1)),
        window={"since": "since"},
        updated_at="at",
        paging={"kind": "TIME", "size": 10},
    )

    assert sorted(set(ids(pages))) == ALL
    assert positions == ["start", "time:2026-11-16T12:00:09Z", "time:2026-11-16T12:00:18Z"]
    assert pages[-1].watermark == NOON + timedelta(seconds=24)
    assert server.queries()[1] == {"since": "2026-11-16T12:00:09Z"}


@pytest.mark.parametrize(
    ("form", "since"),
    [
        ("iso", "2026-11-16T12:00:00Z"),
        ("date", "2026-11-16"),
        ("epoch", "1794830400"),
        ("epoch_ms", "1794830400000"),
    ],
)
async def test_a_window_goes_out_as_the_source_wants_it(form: str, since: str) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return page({"items": []})

    _, _, server = await walk(
        answer,
        asked=Window(NOON, NOON + timedelta(days=1)),
        window={"since": "updated_after", "format": form},
        params={"sort": "asc"},
    )

    assert server.queries() == [{"sort": "asc", "updated_after": since}]


async def test_the_bounds_and_parameters_of_a_slice_go_out_as_declared() -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return page({"items": []})

    params = {"from": 10, "to": 20, "open": True, "fields": ["id", "name"], "deep": {"a": 1}}
    async with serving(answer) as server:
        source = RestSource(
            url=f"{server.url}/x?fixed=1", items="items", bounds={"from": "min_id"}, params={"sort": "asc"}
        )
        await source.fetch(Request("shop", "orders", "HARVEST", None, params=params))
        await source.close()

    assert server.queries() == [{"fixed": "1", "sort": "asc", "min_id": "10", "open": "true", "fields": "id,name"}]


async def test_a_clock_over_there_that_jumps_does_not_carry_the_watermark_along() -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return page({"items": [{"at": "2099-01-01T00:00:00Z"}, {"at": 1794830401}, {"at": "nonsense"}, {}]})

    window = Window(NOON, NOON + timedelta(hours=1))
    pages, _, _ = await walk(answer, asked=window, updated_at="at")
    assert pages[0].watermark == window.until

    pages, _, _ = await walk(answer, asked=None, updated_at="at")
    assert pages[0].watermark == datetime(2099, 1, 1, tzinfo=UTC)


async def test_records_twice_and_out_of_order_are_left_to_the_sink() -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return page({"items": [RECORDS[3], RECORDS[1], RECORDS[3], "odd"]})

    pages, _, _ = await walk(answer, updated_at="at")

    assert [item.get("id", item.get("value")) for item in pages[0].items] == [3, 1, 3, "odd"]
    assert pages[0].watermark == NOON + timedelta(seconds=3)


async def test_what_the_source_says_of_its_limits_is_kept_for_the_gate() -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return page({"items": []}, headers={"X-RateLimit-Remaining": "7", "X-RateLimit-Reset": "30", "X-Other": "no"})

    pages, _, _ = await walk(answer)

    told = pages[0].stats["headers"]
    assert (told["x-ratelimit-remaining"], told["x-ratelimit-reset"]) == ("7", "30")
    assert "x-other" not in told


# Walks that get nowhere


def tokens(*following: str) -> Answer:
    """Give tokens in this order, for ever."""
    count = 0

    async def answer(_request: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        return page({"items": [{"id": count}], "next": following[(count - 1) % len(following)]})

    return answer


async def refused(answer: Answer, most: int = 50, **declared: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        await walk(answer, most=most, **declared)
    assert caught.value.kind is Failure.BATCH
    return caught.value


BY_TOKEN = {"kind": "TOKEN", "next": "next"}


@pytest.mark.contract("I8")
async def test_a_token_given_again_is_refused() -> None:
    assert "the same one again (token:a)" in str(await refused(tokens("a"), paging=BY_TOKEN))


@pytest.mark.contract("I8")
@pytest.mark.parametrize("length", [2, 3, 7, 12])
async def test_a_circle_of_tokens_is_found(length: int) -> None:
    circle = [f"t{number}" for number in range(length)]

    assert "in a circle" in str(await refused(tokens(*circle), most=4 * length, paging=BY_TOKEN))


@pytest.mark.contract("I8")
async def test_a_page_that_grows_is_refused() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return page({"items": [{"id": n} for n in range(int(request.query["page"]) * 10)]})

    error = await refused(answer, paging={"kind": "PAGE", "size": 10})

    assert "the page has 30 items where 10 were asked for" in str(error)


@pytest.mark.contract("I8")
async def test_a_source_that_does_not_heed_the_page_is_refused() -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return page({"items": some(0, 10)})

    assert "is the one before it" in str(await refused(answer, paging={"kind": "PAGE", "size": 10}))


@pytest.mark.contract("I8")
async def test_empty_pages_for_ever_are_refused() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return page({"items": [], "next": str(int(request.query.get("cursor", "0")) + 1)})

    declared = {**BY_TOKEN, "empty_max": 3}

    assert "3 empty pages" in str(await refused(answer, paging=declared))
    assert "10 empty pages" in str(await refused(answer, paging=BY_TOKEN))


@pytest.mark.contract("I8")
async def test_a_whole_page_of_one_time_is_refused() -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return page({"items": [{"id": n, "at": "2026-11-16T12:00:00Z"} for n in range(10)]})

    error = await refused(
        answer, position="time:2026-11-16T12:00:00Z", updated_at="at", paging={"kind": "TIME", "size": 10}
    )

    assert "the same one again" in str(error)


@pytest.mark.contract("I8")
async def test_a_page_asked_for_again_is_no_circle() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        number = int(request.query.get("cursor", "0"))
        return page({"items": [{"id": number}], "next": str(number + 1)})

    async with serving(answer) as server:
        source = RestSource(url=f"{server.url}/orders", items="items", paging=BY_TOKEN)
        for position in ("start", "start", "token:1", "token:2", "token:2", "token:1", "token:2", "start", "token:1"):
            found = await source.fetch(Request("shop", "orders", "HARVEST", None, position=position))
            assert found.has_next
        await source.close()


@pytest.mark.parametrize(
    ("next", "said"),
    [
        ({"a": 1}, "next: expected a token"),
        ("x" * 3000, "longer than 2000 characters"),
        (None, "more says that there is more, and there is nothing at next"),
    ],
)
async def test_a_token_that_is_none_is_refused(next: Any, said: str) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return page({"items": [{"id": 1}], "next": next, "more": True})

    assert said in str(await refused(answer, paging={**BY_TOKEN, "has_next": "more"}))


@pytest.mark.contract("I4")
@pytest.mark.parametrize("position", ["page:x", "nowhere", "page:03", "time:2026-11-16", "offset:-1"])
async def test_a_position_that_is_not_canonical_is_refused(position: str) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        raise AssertionError("not asked")

    await refused(answer, position=position, paging={"kind": "PAGE"})


# Declarations


@pytest.mark.parametrize(
    ("declared", "field"),
    [
        ({"url": "ftp://x"}, "url"),
        ({"url": "https://"}, "url"),
        ({"url": "https://x/{id}"}, "url"),
        ({"url": "https://x:99999/"}, "url"),
        ({"url": "https://me:word@x/"}, "url"),
        ({}, "url"),
        ({"items": "data..items"}, "items"),
        ({"items": "data[x]"}, "items"),
        ({"items": ""}, "items"),
        ({"itms": "data"}, "itms"),
        ({"paging": "PAGE"}, "paging"),
        ({"paging": {"kind": "PAGES"}}, "paging.kind"),
        ({"paging": {"kind": "TOKEN"}}, "paging.next"),
        ({"paging": {"kind": "TIME", "size": 10}}, "updated_at"),
        ({"paging": {"kind": "TIME"}, "updated_at": "at"}, "paging.size"),
        ({"paging": {"kind": "PAGE", "size": 0}}, "paging.size"),
        ({"paging": {"kind": "PAGE", "step": 1}}, "paging.step"),
        ({"paging": {"kind": "TOKEN", "next": "header:a b"}}, "paging.next"),
        ({"window": {"from": "x"}}, "window.from"),
        ({"window": {}}, "window"),
        ({"bounds": {"since": "x"}}, "bounds.since"),
        ({"window": {"since": "a", "format": "unix"}}, "window.format"),
        ({"auth": {"env": "X"}}, "auth"),
        ({"auth": {"env": "hunter2 is the word", "header": "A"}}, "auth.env"),
        ({"auth": {"env": "X", "header": "A", "form": "Bearer"}}, "auth.form"),
        ({"auth": {"env": "X", "header": "A\r\nB"}}, "auth.header"),
        ({"headers": {"X-A": "a\r\nb"}}, "headers.X-A"),
        ({"params": {"a": [1]}}, "params.a"),
        ({"timeout": "1h"}, "timeout"),
        ({"timeout": "soon"}, "timeout"),
        ({"body_limit": 0}, "body_limit"),
        ({"retry_on": [200]}, "retry_on"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_field(declared: dict[str, Any], field: str) -> None:
    given = declared if "url" in declared or not declared else {"url": "https://api.example.com", **declared}

    with pytest.raises(errors.IngestInvalidSource) as caught:
        RestSource(**given)

    assert caught.value.code == "INGEST_INVALID_SOURCE"
    assert caught.value.details["field"] == field
    assert caught.value.message.startswith(field.partition(".")[0])
    assert "hunter2" not in str(caught.value)
