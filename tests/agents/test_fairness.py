"""A flood of one tenant's turns starves nobody (A3, as T17 for tasks)."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from ferryman.agents import intake
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.model import NewAgent, Order, Taken
from ferryman.agents.store import heads
from ferryman.agents.work.crew import TurnCrew
from ferryman.kernel import ids
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line, Session

PARTIES = Parties()
OWNER = UUID(int=1)


async def ready(db: Database, tenant: str, count: int, *, profile: str = "writer") -> None:
    """Put turns of as many agents before the workers."""
    agents = [f"agent{n}" for n in range(count)]
    async with db.transaction() as tx:
        await intake.create(tx, [NewAgent(tenant, name, profile) for name in agents])
        orders = [Order(tenant=tenant, agent_id=name, turn=ids.new_id(), instruction="go") for name in agents]
        await intake.enqueue(tx, orders, PARTIES, after=Aftermath())


async def claim(tx: Session, room: int, rota: heads.Rota | None = None) -> list[Taken]:
    return await heads.claim(
        tx, owner=OWNER, profiles=["writer"], targets=["default"], kinds=[], room=room, terms=PARTIES.terms, rota=rota
    )


def tenants(taken: list[Taken]) -> dict[str, int]:
    return dict(Counter(each.tenant for each in taken))


@pytest.mark.contract("A3", "K12")
async def test_every_tenant_with_something_ready_has_its_share(db: Database) -> None:
    await ready(db, "flood", 30)
    for late in ("calm", "zen"):
        await ready(db, late, 2)
    async with db.transaction() as tx:
        await tx.fetch("update ferryman.clock_shift set shift = shift + interval '1 s'")

        first = await claim(tx, 9)
        rest = await claim(tx, 9)

    assert tenants(first) == {"calm": 2, "flood": 3, "zen": 2}
    assert tenants(rest) == {"flood": 9}


@pytest.mark.contract("A3", "K12")
async def test_more_tenants_than_there_is_room_for_come_round(db: Database) -> None:
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        await ready(db, name, 4)
    rota, seen = heads.Rota(after="d"), []
    async with db.transaction() as tx:
        shared = tenants(await claim(tx, 10, rota))
        asked = rota.asked
        for room in (2, 2, 2, 4):
            seen.append("".join(sorted(each.tenant for each in await claim(tx, room, rota))))

    assert (shared, asked) == (dict.fromkeys(names, 2), 5)
    assert seen == ["ab", "cd", "ae", "bcde"]


@pytest.mark.contract("A3", "K12")
async def test_tenants_whose_turns_nobody_here_can_do_do_not_hold_up_the_others(db: Database) -> None:
    for name in ("a", "b", "c"):
        await ready(db, name, 1, profile="stranger")
    await ready(db, "d", 1)
    rota = heads.Rota()
    async with db.transaction() as tx:
        taken = [await claim(tx, 2, rota), await claim(tx, 2, rota)]

    assert [tenants(each) for each in taken] == [{}, {"d": 1}]


class Nobody:
    """What does turns, and does none here."""

    profiles = ("writer",)

    async def prepare(self, tx: Any, taken: Any) -> None:
        return None

    def forget(self, ids: Any) -> None:
        return None

    async def run(self, taken: Taken) -> None:
        return None


@pytest.mark.contract("A3")
async def test_a_worker_looks_again_for_what_the_shares_of_others_left(db: Database, database_url: str) -> None:
    await ready(db, "few", 1)
    await ready(db, "many", 9)
    line = Line(database_url)
    crew = TurnCrew(Nobody(), PARTIES, NoDoorbell(), owner=OWNER, targets=["default"])
    try:
        looks = [await crew.turn(line, [], room) for room in (8, 3, 3)]
    finally:
        await line.close()

    assert [(len(look.items), look.more) for look in looks] == [(5, True), (3, True), (2, False)]
