"""What is no text and must be seen (edges of fields, bars, the focus) stands out from its ground, as WCAG AA asks."""

import re
from pathlib import Path

import pytest

import ferryman

SHEET = (Path(ferryman.__file__).parent / "dashboard" / "static" / "ferryman.css").read_text(encoding="utf-8")
NAMED = {name: pair for name, *pair in re.findall(r"--([a-z0-9-]+): light-dark\((#\w+), (#\w+)\)", SHEET)}
LEAST = 3.0


def light(colour: str) -> float:
    digits = colour.removeprefix("#")
    digits = "".join(each * 2 for each in digits) if len(digits) == 3 else digits
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((light(one), light(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.contract("S5")
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_what_must_be_seen_stands_out(theme: int) -> None:
    fills = [name for name in NAMED if name.endswith("-fill")]
    seen = {(name, "panel") for name in (*fills, "edge", "focus")} | {("edge", "ground"), ("focus", "ground")}
    found = {pair: contrast(*(NAMED[name][theme] for name in pair)) for pair in seen}

    assert len(fills) == 6
    assert {pair: ratio for pair, ratio in found.items() if ratio < LEAST} == {}
