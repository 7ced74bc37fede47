"""`ferryman doctor` on what keeps events of the log from its readers, and a worker that repairs it."""

from typing import Any
from uuid import uuid4

import pytest

from ferryman import Ferryman
from ferryman.kernel import events
from ferryman.kernel.pool import Database
from tests.surfaces import ferry

LATER = """
    insert into ferryman.events (logged_at, at, subject, tenant, kind)
    select now() - (100 - n) * interval '1 hour', now(), gen_random_uuid(), 'default', 'thing' from generate_series(1, 100) as n
"""

GRANTS = ("select, insert, update, delete on all tables", "usage, select on all sequences", "execute on all functions")


def reading(ran: ferry.Ran, name: str) -> dict[str, Any]:
    [found] = [each for each in ran.json["readings"] if each["name"] == name]
    return dict(found)


@pytest.mark.contract("K10")
async def test_a_sequence_left_behind_is_a_finding_until_a_worker_repairs_it(database_url: str, db: Database) -> None:
    async with db.session() as tx:
        await tx.fetch(LATER)
        await events.begin(tx, "reader", after_id=100)
        await tx.fetch("alter sequence ferryman.events_id_seq restart")
    async with Ferryman(database_url) as app:
        created = await app.tasks.create("greet", {"name": "Ada"})
    before = ferry.run("doctor", "--json", url=database_url)
    with ferry.worker(url=database_url):
        ended = ferry.run("task", "wait", str(created.id), url=database_url)
        after = ferry.run("doctor", "--json", url=database_url)
    async with db.transaction() as tx:
        found = await events.read(tx, "reader")

    assert before.code == 1
    assert reading(before, "sequences")["verdict"] == "bad"
    assert "events (1, in use 100)" in reading(before, "sequences")["says"]
    assert "ferryman.repair_sequence(table_name)" in reading(before, "sequences")["advice"]
    assert (ended.code, reading(after, "sequences")["verdict"]) == (0, "good"), ended.err
    assert [event.to_state for event in found if event.subject == created.id] == ["ready", "running", "succeeded"]


@pytest.mark.contract("K10")
async def test_a_worker_whose_role_does_not_own_the_tables_says_what_to_do(database_url: str, db: Database) -> None:
    role = f"guest_{uuid4().hex[:12]}"
    async with db.session() as tx:
        await tx.fetch(LATER)
        await tx.fetch("alter sequence ferryman.events_id_seq restart")
        await tx.fetch(f"create role {role} login")
        for grant in GRANTS:
            await tx.fetch(f"grant {grant} in schema ferryman to {role}")
        await tx.fetch(f"grant usage on schema ferryman to {role}")
    try:
        guest = database_url.replace("postgres@", f"{role}@")
        with ferry.running("worker", "--app", "shop:app", url=guest) as worker:
            said = ferry.read_until(worker.stderr, "working")
    finally:
        async with db.session() as tx:
            await tx.fetch(f"drop owned by {role}")
            await tx.fetch(f"drop role {role}")

    assert "The sequence of events is behind its table, and this role may not repair it" in "".join(said)
    assert "As the owner of the tables, run: select table_name, ferryman.repair_sequence(table_name)" in "".join(said)
