"""Pictures: pure functions from figures to SVG."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from ferryman.dashboard.pictures.columns import Kind, columns, legend, top
from ferryman.dashboard.pictures.share import Part, share
from ferryman.dashboard.pictures.spark import HEIGHT, WIDTH, buckets, spark
from ferryman.dashboard.pictures.svg import element
from ferryman.dashboard.pictures.timeline import Mark, Row, Span, ticks, timeline
from tests.corpus.markup import MARKUP

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def parsed(picture: Markup) -> ElementTree.Element:
    return ElementTree.fromstring(str(picture))


def test_a_spark_line_goes_from_edge_to_edge_and_touches_the_top_at_its_highest() -> None:
    line = parsed(spark([0, 5, 10], says="going up"))[1]
    places = [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]
    assert [x for x, _ in places] == [0, WIDTH / 2, WIDTH]
    assert places[0][1] > places[1][1] > places[2][1] == 2
    assert places[0][1] == HEIGHT - 2


@pytest.mark.parametrize("values", [[], [0], [3], [0, 0, 0]])
def test_a_spark_line_of_little_or_nothing_can_be_drawn(values: list[int]) -> None:
    assert parsed(spark(values, says="flat")).get("aria-label") == "flat"


def test_stretches_of_a_series_keep_its_sum_and_its_newest_end() -> None:
    assert buckets([1, 2, 3, 4, 5, 6], 3) == [3, 7, 11]
    assert buckets([1, 2], 4) == [0, 0, 1, 2]
    assert sum(buckets(list(range(600)), 120)) == sum(range(600))


def test_columns_stand_on_each_other_below_a_round_number() -> None:
    kinds = [Kind("well", "green", [4, 0, 10]), Kind("badly", "red", [4, 2, 30])]
    assert top(kinds) == 40
    shapes = [each for each in parsed(columns(kinds, says="ended")) if "fill" in (each.get("class") or "")]
    green, red = (re.findall(r"M([\d.]+),([\d.]+)V([\d.]+)", each.get("d", "")) for each in shapes)
    assert [(low, high) for _, low, high in green] == [("120.00", "108.00"), ("120.00", "90.00")]
    assert red[0][1:] == ("108.00", "96.00"), "the second kind begins where the first ends"
    assert [text.tail or text[0].tail for text in parsed(legend(kinds))] == ["well", "badly"]


@pytest.mark.parametrize(("highest", "round_number"), [(0, 1), (1, 1), (7, 8), (11, 20), (99, 100), (4_100, 5_000)])
def test_the_height_of_a_chart_reads_well(highest: int, round_number: int) -> None:
    assert top([Kind("", "green", [highest])]) == round_number


def test_the_parts_of_a_bar_share_its_length() -> None:
    bar = parsed(share([Part("held", "blue", 1), Part("reserved", "amber", 1)], whole=4, says="half"))
    assert [(each.get("x"), each.get("width")) for each in bar] == [("0", "400"), ("0", "100"), ("100", "100")]


def test_a_timeline_places_spans_and_marks_on_its_axis() -> None:
    spans = [Span(at(0), at(5), "amber", "waited", thin=True), Span(at(5), at(10), "blue", "ran")]
    whole = parsed(
        timeline(
            [Row("Attempt 1", spans, [Mark(at(10), "green", "ended")], "5 s")], begin=at(0), end=at(10), says="story"
        )
    )
    name, picture, note = whole[0]
    assert (name.text, note.text) == ("Attempt 1", "5 s")
    waited, ran, ended = picture
    assert [waited.get("x"), waited.get("width"), waited.get("height")] == ["0", "500", "4"]
    assert [ran.get("x"), ran.get("width"), ran.get("height")] == ["500", "500", "12"]
    assert float(ended.get("x", "0")) > 995
    assert picture.get("aria-label") == "waited; ran; ended"


def test_a_timeline_of_no_time_at_all_and_of_times_outside_can_be_drawn() -> None:
    odd = [Span(at(-5), at(-1), "blue", "before"), Span(at(7), at(9), "blue", "after")]
    places = [
        float(each.get("x", "-1"))
        for each in parsed(timeline([Row("odd", odd)], begin=at(0), end=at(0), says=""))[0][1]
    ]
    assert all(0 <= place <= 1000 for place in places)
    assert ticks(timedelta(seconds=8)) == ["0", "2.0 s", "4.0 s", "6.0 s", "8.0 s"]


@pytest.mark.contract("S6")
@pytest.mark.parametrize("text", MARKUP)
def test_whatever_is_drawn_stays_text(text: str) -> None:
    row = Row(text, [Span(at(0), at(1), "blue", text)], [Mark(at(1), "red", text)], text)
    drawn = (timeline([row], begin=at(0), end=at(1), says=text), element("p", text, title=text))
    for picture in drawn:
        names = set(re.findall(r"<(\w+)", str(picture)))
        assert names <= {"ol", "li", "span", "svg", "rect", "title", "p"}
        assert "onerror=" not in re.sub(r'="[^"]*"|>[^<]*<', "", str(picture))
