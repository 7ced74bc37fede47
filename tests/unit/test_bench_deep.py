"""What gathers in a table is drained in front of twice, in a mirrored order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import pytest

from bench import deep
from bench.stage import Stage


class Slowing:
    """A stage on a machine that gets slower with each drain, by as much each time; what lies in the table costs nothing."""

    scale = 1.0

    def __init__(self) -> None:
        self.card = type("Card", (), {"fill": dict.fromkeys(deep.KINDS, "")})
        self.rate = 1_100.0
        self.kind = ""
        self.drained: list[str] = []

    def count(self, _size: str) -> int:
        return 1

    def fresh(self, *, template: str) -> None:
        self.kind = template

    def drain(self, *_: object) -> dict[str, float]:
        self.drained.append(self.kind)
        self.rate -= 100.0
        return {"rate": self.rate, "cpu": 1.0}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Slowing:
    stage = Slowing()

    @contextlib.contextmanager
    def begun(_stage: Any, kind: str, _count: int, *, keep: bool) -> Iterator[None]:
        stage.kind = kind
        yield

    monkeypatch.setattr(deep, "drain_filled", stage.drain)
    monkeypatch.setattr(deep, "filled", lambda _stage, kind, _count: kind)
    monkeypatch.setattr(deep, "begun", begun)
    return stage


def test_a_machine_that_gets_slower_is_not_put_down_to_the_rows(stage: Slowing) -> None:
    figures = deep.deep(cast(Stage, stage))

    assert stage.drained == ["empty", "finished", "future", "retrying", "retrying", "future", "finished", "empty"]
    assert {figures[f"{kind}_share"] for kind in deep.KINDS} == {1.0}


def test_ten_million_rows_are_drained_in_front_of_twice(stage: Slowing) -> None:
    figures = deep.deep10(cast(Stage, stage))

    assert stage.drained == ["empty", "finished", "finished", "empty"]
    assert figures["finished_share"] == 1.0
