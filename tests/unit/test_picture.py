"""The curve that the story draws in a terminal."""

from ferryman.cli.demo.picture import curve


def test_a_curve_fills_its_columns_from_the_ground() -> None:
    drawn = curve([(0.0, 40.0), (1.0, 20.0), (2.0, 0.0), (3.0, 40.0)], {}, top=40, width=4)

    assert drawn[:5] == ["40 │█  █", "   │█  █", "   │██ █", "   │██ █", " 0 └────"]


def test_a_stretch_without_a_sample_goes_on_as_before() -> None:
    drawn = curve([(0.0, 10.0), (4.0, 10.0)], {}, top=10, width=5)

    assert drawn[0] == "10 │█████"


def test_marks_stand_where_they_happened_and_the_last_kind_is_seen() -> None:
    samples = [(0.0, 1.0), (10.0, 1.0)]

    drawn = curve(samples, {"5": [2.5], "4": [2.5, 7.1], "K": [99.0]}, top=1, width=10)

    assert drawn[-1][3:] == "  4    4 K"


def test_what_cannot_be_shown_is_drawn_in_ascii() -> None:
    assert all(line.isascii() for line in curve([(0.0, 3.0), (1.0, 1.0)], {"4": [0.5]}, top=3, width=8, fancy=False))


def test_nothing_sampled_is_no_picture() -> None:
    assert curve([], {"K": [1.0]}, top=1, width=8) == []
