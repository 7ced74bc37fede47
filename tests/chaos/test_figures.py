"""R3: what a run says of itself: why tasks were started again, and what a soak has found."""

from pathlib import Path
from typing import Any

import pytest

from chaos import report
from chaos.checker import again

LEASE = 2.0


def start(at: float, pid: int, epoch: int) -> dict[str, Any]:
    return {"what": "start", "at": at, "pid": pid, "task": "t", "epoch": epoch}


def line(what: str, at: float, **more: Any) -> dict[str, Any]:
    return {"what": what, "at": at, **more}


STRUCK = [line("struck", 10.5, kind="freeze", child=1), line("thawed", 14.0, child=1)]


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("cause", "history", "first"),
    [
        (again.KILLED, [line("died", 11.0, child=1)], 10.0),
        (again.DONE, [line("effect", 10.9, task="t", epoch=1), line("died", 11.0, child=1)], 10.0),
        (again.NOTHING, [line("died", 14.0, child=1)], 10.0),
        (again.STILL, STRUCK, 10.0),
        (again.STILL, STRUCK, 14.1),  # it was claimed before, and begun by a ghost
        (again.NOTHING, [line("struck", 10.5, kind="pause", child=1), line("thawed", 10.9, child=1)], 10.0),
        (again.AWAY, [line("back", 11.0, killed=10.4)], 10.0),
        (again.NOTHING, [], 10.0),
    ],
)
def test_a_second_start_is_put_down_to_the_fault_that_forced_it(
    cause: str, history: list[dict[str, Any]], first: float
) -> None:
    past = again.Past(history, (), lease=LEASE)

    found = again.causes([start(first, 1, 1), start(13.0, 2, 2)], past)

    assert {each: count for each, count in found.items() if count} == {cause: 1}


def test_who_lost_renewals_lost_leases() -> None:
    found = again.causes([start(10.0, 1, 1), start(13.0, 2, 2)], again.Past([], [1], lease=LEASE))

    assert found[again.RENEWALS] == 1


GROWTH = {"who": "worker-0.1", "middle": 60 << 20, "rise": 1 << 20, "an_hour": 0, "least": 16 << 20, "judged": 5}
SOAK: dict[str, Any] = {
    "seed": 7, "lease": 2.0, "minutes": 60.0, "pooler": False, "wall_seconds": 3700, "python": "3.11", "cores": 2,
    "load": [1.0, 1.0, 1.0], "lost": 0, "second_ends": 0, "tasks": 9, "turns": 1, "batches": 1, "commands": 1, "records": 1,
    "acknowledged": 9, "quiet_seconds": 3.0, "overdue": 0, "looks": 100, "soak": {"memory": GROWTH},
}  # fmt: skip


def test_a_soak_has_a_place_of_its_own_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- chaos: begin -->\nstorm\n<!-- chaos: end -->\n<!-- soak: begin -->\n<!-- soak: end -->\n",
        encoding="utf-8",
    )

    report.write(page, SOAK)

    text = page.read_text(encoding="utf-8")
    assert text.startswith(
        "<!-- chaos: begin -->\nstorm\n<!-- chaos: end -->\n<!-- soak: begin -->\nSeed 7, 60 minutes"
    )
    assert "| memory, what grew most of 5 | ≤ 16.0 MiB | 1.0 MiB from the first to the last third (worker-0.1" in text
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="no place for this"):
        report.write(page, SOAK)
