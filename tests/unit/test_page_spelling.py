"""How values are spelled on pages."""

from datetime import UTC, datetime, timedelta

import pytest

from ferryman.dashboard import spelling
from ferryman.http.routes.session import local

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 ms"), (0.0304, "30 ms"), (0.9999, "1.0 s"), (2.34, "2.3 s"), (59.94, "60 s"), (60, "1 min"),
        (61, "1 min 1 s"), (3600, "1 h"), (5400, "1 h 30 min"), (90_000, "1 d 1 h"), (-3, "0 ms"),
    ],
)  # fmt: skip
def test_a_length_of_time_has_one_or_two_units(seconds: float, told: str) -> None:
    assert spelling.length(timedelta(seconds=seconds)) == spelling.length(seconds) == told


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.4, "now"), (12, "12 s ago"), (90, "2 min ago"), (-7200, "in 2 h"), (200_000, "2 d ago")]
)
def test_a_time_is_told_by_how_far_it_is(seconds: float, told: str) -> None:
    assert spelling.ago(NOW - timedelta(seconds=seconds), NOW) == told


def test_numbers_ids_and_json_are_spelled_for_people() -> None:
    assert spelling.number(1_234_567) == "1\u202f234\u202f567"
    assert spelling.number(0.25) == "0.2"
    assert spelling.short("01a1e337-f3f7-764b-8b65-57ba1bd4bece") == "…1bd4bece"
    assert spelling.short("order-1042") == "order-1042"
    assert spelling.pretty('{"a":[1,"é"]}') == '{\n  "a": [\n    1,\n    "é"\n  ]\n}'
    assert spelling.pretty("not json") == "not json"


@pytest.mark.contract("S5", "S6")
def test_ids_in_a_sentence_lead_to_what_they_name_and_the_rest_stays_text() -> None:
    id = "01a1e337-f3f7-764b-8b65-57ba1bd4bece"
    told = spelling.linked(f"<b>The task {id} is held by {id}-7.")
    link = f'<a class="id" href="/search?q={id}" title="{id}">…1bd4bece</a>'
    assert told == f"&lt;b&gt;The task {link} is held by {link}-7."


@pytest.mark.contract("S6")
@pytest.mark.parametrize(
    "path",
    [
        "https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example", "javascript:alert(1)", "tasks",
        "/\nSet-Cookie: a=b", "", None, "\\\\elsewhere.example", "/\t/elsewhere.example",
    ],
)  # fmt: skip
def test_a_way_back_never_leads_elsewhere(path: object) -> None:
    assert local(path) == "/"
    assert local("/tasks?state=failed") == "/tasks?state=failed"
