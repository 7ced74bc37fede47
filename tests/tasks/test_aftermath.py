"""What is rung for after a commit whose answer was lost (K2, K24)."""

from collections.abc import AsyncIterator, Iterable

import pytest

from ferryman.kernel.doorbell import Inside, NoDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.tasks.joins import CHILD, Joins
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import CANCELLED, RUNNING, SUCCEEDED, TASK
from ferryman.testing import plant, state_of
from tests.sql.moves import SOUND, outcome
from tests.sql.test_round_trips import crew


class Noted(NoDoorbell):
    """Writes down what is rung for."""

    def __init__(self) -> None:
        super().__init__()
        self.rings: dict[str, set[str]] = {}

    def ring(self, topic: str, hints: Iterable[str] = (), *, inside: Inside | None = None) -> None:
        self.rings[topic] = set(hints)


@pytest.fixture
async def line(database_url: str) -> AsyncIterator[Line]:
    line = Line(database_url)
    yield line
    await line.close()


@pytest.mark.contract("K24", "T14", "T19")
async def test_the_repeat_of_a_turn_whose_answer_was_lost_rings_for_the_children_it_cannot_name(
    db: Database, line: Line
) -> None:
    async with db.session() as tx:
        parent = await plant(tx, TASK, RUNNING, **SOUND[RUNNING])
        child = await plant(tx, TASK, RUNNING, callback=CHILD, callback_ref=str(parent))
        await tx.fetch(
            "insert into ferryman.task_steps (task, child, at, nth, kind, name, state)"
            " values ($1, $2, now(), 1, 'child', 'a', 'open')",
            parent,
            child,
        )
    pump, bell = crew(line), Noted()
    pump._doorbell, pump._owners = bell, Owners({CHILD: Joins()})
    said = outcome(parent, SUCCEEDED)._replace(bore=True)

    await pump.turn(line, [said], 0)
    first, bell.rings = bell.rings, {}
    await pump.turn(line, [said], 0)

    assert first["cancel"] == first["done"] - {str(parent)} == {str(child)}
    # No names: whoever runs, waits or claims looks at all that is its own.
    assert bell.rings == {"cancel": set(), "done": set(), "ready": set()}
    async with db.session() as tx:
        assert await state_of(tx, child) == CANCELLED
