"""Each invariant of agents notices what it is there for: a check that cannot fail shows nothing (K23)."""

from contextlib import suppress
from datetime import timedelta

import pytest

from ferryman.agents import watch
from ferryman.kernel import events, invariants
from tests.agents.house import House

# Ann waits for two calls, Bob runs, Cat has ended a turn and Dan never had one.
PLANTED = {
    "active_has_a_message": [
        "update ferryman.agent_inbox set status = 'pending' where agent_id = 'bob'",
        "update ferryman.agent_state_head set active_inbox_id = gen_random_uuid() where agent_id = 'ann'",
    ],
    "busy_has_a_turn": [
        "update ferryman.agent_state_head set turn_deadline = null where agent_id = 'bob'",
        "update ferryman.agent_state_head set active_agent_turn_id = gen_random_uuid() where agent_id = 'dan'",
    ],
    "ended_has_a_deliverable": [
        "update ferryman.agent_inbox set deliverable_card_id = null where agent_id = 'cat'",
        "update ferryman.boxes set card_ids = '{}'"
        " where id = (select output_box_id from ferryman.agent_inbox where agent_id = 'cat')",
        "update ferryman.cards set type = 'task.instruction'",
    ],
    "head_and_log_agree": [
        "update ferryman.agent_state_head set turn_epoch = turn_epoch + 1 where agent_id = 'bob'",
        "update ferryman.agent_state_head set status = 'dispatched' where agent_id = 'bob'",
    ],
    "one_writer": [
        "update ferryman.agent_state_head set output_box_id ="
        " (select output_box_id from ferryman.agent_state_head where agent_id = 'bob') where agent_id = 'ann'",
    ],
    "suspended_is_waiting": [
        "update ferryman.agent_state_head set waiting_tool_count = 3 where agent_id = 'ann'",
        "update ferryman.agent_state_head set ready_at = ferryman.clock() where agent_id = 'ann'",
        "update ferryman.agent_state_head set resume_deadline = resume_deadline + interval '1 hour' where agent_id = 'ann'",
    ],
    "turns_have_one_end": [
        "delete from ferryman.events where kind = 'agent.task'",
        "update ferryman.events set kind = 'agent.task' where kind = 'agent.state'",
        "update ferryman.agent_inbox set archived_at = null where agent_id = 'cat'",
    ],
    "waits_belong_to_turns": [
        "update ferryman.turn_waiting_tools set turn_epoch = turn_epoch + 1",
        "update ferryman.agent_state_head set status = 'running' where agent_id = 'ann'",
    ],
}
# The tables themselves refuse some of these: what the checks are for is a fault that came past them.
UNBOUND = """
do $$
declare
    bound record;
begin
    for bound in
        select conrelid::regclass as place, conname from pg_constraint
        where contype = 'c' and coninhcount = 0 and connamespace = 'ferryman'::regnamespace
    loop
        execute format('alter table %s drop constraint %I', bound.place, bound.conname);
    end loop;
end $$
"""


class Undo(Exception):
    """Takes a planted fault back."""


def test_every_invariant_of_agents_has_its_fault() -> None:
    assert set(PLANTED) == {each.name for each in watch.AGENT_INVARIANTS}


@pytest.mark.contract("K23", "A1")
async def test_each_invariant_of_agents_finds_what_it_is_for(house: House) -> None:
    for agent in ("ann", "bob", "cat"):
        taken = await house.begin(agent)
        if agent == "ann":
            await house.settle(house.waits(taken, "one", "two"))
        if agent == "cat":
            await house.settle(house.success(taken))
    await house.agent("dan")
    assert await house.broken() == []

    for name, faults in PLANTED.items():
        for fault in faults:
            with suppress(Undo):
                async with house.db.transaction() as tx:
                    await tx.fetch("select set_config('session_replication_role', 'replica', true)")
                    await tx.fetch(UNBOUND)
                    await tx.fetch(fault)
                    broken = {each.name for each in await invariants.check(tx, watch.AGENT_INVARIANTS)}
                    assert name in broken, fault
                    raise Undo
    assert await house.broken() == []


@pytest.mark.contract("K23", "K10", "T20")
async def test_a_turn_that_has_outlived_the_log_breaks_nothing(house: House) -> None:
    """The last turn of an agent stays for as long as the agent does, and the days of the log do not."""
    taken = await house.begin("cat")
    await house.settle(house.success(taken))
    async with house.db.transaction() as tx:
        await events.drop_partitions(tx, older_than=timedelta(days=-1))  # today's day, too

    assert await house.events(taken.id) == []
    assert await house.broken() == []
