"""Renewing a set of leases: what is refused, what is not waited for."""

import pytest

from ferryman.kernel.pool import Database
from ferryman.tasks import store
from ferryman.tasks.states import RUNNING, TASK
from ferryman.testing.plants import plant
from tests.sql.moves import EPOCH, LEASE, MARGIN, OTHER, OWNER, SOUND


@pytest.mark.contract("K4", "K5")
async def test_only_what_is_still_held_by_the_same_claim_is_in_the_answer(db: Database) -> None:
    async with db.transaction() as tx:
        mine = await plant(tx, TASK, RUNNING, **SOUND[RUNNING])
        foreign = await plant(tx, TASK, RUNNING, **SOUND[RUNNING] | {"lease_owner": OTHER})
        newer = await plant(tx, TASK, RUNNING, **SOUND[RUNNING] | {"epoch": EPOCH + 1})
        cancelled = await plant(tx, TASK, RUNNING, **SOUND[RUNNING])
        await store.cancel(tx, [cancelled])

    async with db.session() as session:
        ids = [mine, foreign, newer, cancelled]
        answer = await store.renew(session, ids, [EPOCH] * 4, owner=OWNER, lease=LEASE, margin=MARGIN)

    assert answer == {mine: True}


@pytest.mark.contract("K5", "K24")
async def test_a_task_that_somebody_is_writing_does_not_hold_up_the_renewal_of_the_others(db: Database) -> None:
    async with db.transaction() as tx:
        one, two = [await plant(tx, TASK, RUNNING, **SOUND[RUNNING]) for _ in range(2)]

    async with db.transaction() as slow, db.session() as session:
        await store.cancel(slow, [one])
        answer = await store.renew(session, [one, two], [EPOCH] * 2, owner=OWNER, lease=LEASE, margin=MARGIN)

    assert answer == {one: False, two: True}
    async with db.session() as session:
        after = await store.renew(session, [one, two], [EPOCH] * 2, owner=OWNER, lease=LEASE, margin=MARGIN)
    assert after == {two: True}
