"""Diagrams as SVG, made of the declarations' own text."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from ferryman.agents.states import MESSAGE
from ferryman.ingest import states as ingest
from ferryman.kernel.machine import Machine
from ferryman.tasks.states import TASK
from tools import diagram

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("machine", [TASK, MESSAGE, *ingest.MACHINES], ids=lambda each: each.table)
def test_every_state_and_every_move_is_drawn(machine: Machine[Any]) -> None:
    text = machine.mermaid()
    drawn = ElementTree.fromstring(diagram.draw(text, title="its life"))

    words = [str(each.text) for each in drawn.iter(f"{SVG}text")]
    edges = re.findall(r"^\s+\w+ --> \w+: (.+)$", text, re.MULTILINE)
    assert sorted(words) == sorted([*machine.states.__members__.values(), *edges])
    assert drawn.get("aria-label") == "its life"


def test_states_do_not_cover_each_other() -> None:
    drawn = ElementTree.fromstring(diagram.draw(ingest.TASK.mermaid(), title=""))
    boxes = [
        tuple(float(each.get(name, "0")) for name in ("x", "y", "width", "height"))
        for each in drawn.iter(f"{SVG}rect")
        if each.get("rx") == "8"
    ]

    covered = [
        (a, b)
        for number, a in enumerate(boxes)
        for b in boxes[number + 1 :]
        if a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]
    ]
    assert covered == []


def test_a_diagram_stands_in_a_page_as_one_block() -> None:
    assert "\n\n" not in diagram.draw(TASK.mermaid(), title="x")
