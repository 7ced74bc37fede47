"""What is a turn doing, or an agent, why does it not run, what ends it? Every reason has its test (K22)."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.agents import intake, rules
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.intake import budgets
from ferryman.agents.intake.delegate import DelegateEnds
from ferryman.agents.intake.report import TOOL, reference
from ferryman.agents.model import Amount, NewAgent, Order, Source
from ferryman.agents.ports import TurnOwners
from ferryman.agents.store import budgets as spending
from ferryman.app.doctor import work
from ferryman.kernel import ids
from ferryman.kernel.pool import Database
from ferryman.tasks import store
from ferryman.tasks.intake.explain import Explanation, explain
from ferryman.tasks.model import Draft, NewTask
from tests.agents.house import OWNER, TENANT, House, call_of

HOUR = timedelta(hours=1)
WATCHED = "update ferryman.watchdog set ticked_at = clock_timestamp() + ferryman.slack()"
KNOWS = '{"profiles": ["writer"], "targets": ["default"], "turn_callbacks": ["delegate"]}'


@pytest.fixture
async def house(db: Database) -> House:
    made = House(db, owners=TurnOwners({"delegate": DelegateEnds(Parties())}))
    await made.write(WATCHED)
    return made


async def told(house: House, id: UUID | str) -> Explanation:
    async with house.db.session() as tx:
        explanation = await explain(tx, id, tenant=TENANT)
    assert explanation is not None
    return explanation


async def works(house: House, settings: str = KNOWS, *, boot_id: UUID | None = None, lease: timedelta = HOUR) -> None:
    """Let a worker say that it lives, and what it knows."""
    async with house.db.session() as tx:
        await store.beat(
            tx, boot_id=boot_id or ids.boot_id(), host="ferry", pid=7, version="1", queues=["default"], handlers=[],
            settings=settings, lease=lease,
        )  # fmt: skip


def ends(explained: Explanation) -> str:
    assert explained.ends is not None
    assert explained.ends.terminal_by is not None
    assert explained.ends.terminal_by >= explained.ends.ends_by
    return explained.ends.rule


@pytest.mark.contract("K22")
async def test_a_turn_that_waits_for_a_worker_says_which_one_is_missing(house: House) -> None:
    await house.agent()
    turn = await house.enqueue(callback="delegate", callback_ref=f"{TENANT}/boss/c")
    reasons = []
    for settings in (
        None, '{"profiles": ["reader"]}', '{"profiles": ["writer"], "targets": ["far"]}',
        '{"profiles": ["writer"], "targets": ["default"], "turn_callbacks": ["batch"]}', "{}",
    ):  # fmt: skip
        await house.write("delete from ferryman.workers")
        if settings is not None:
            await works(house, settings)
        reasons.append((await told(house, turn)).codes())

    assert reasons == [["no_worker"], ["profile_unknown"], ["target_not_served"], ["callback_unknown"], ["in_line"]]
    explained = await told(house, turn)
    assert (explained.domain, explained.state, explained.doing) == ("turn", "dispatched", "It waits for a worker.")
    assert (ends(explained), explained.reasons[0].says) == (
        "W6", "It can be taken in hand: one living worker would.",
    )  # fmt: skip


@pytest.mark.contract("K22")
async def test_a_turn_in_line_names_what_stands_before_it(house: House) -> None:
    await works(house)
    running = await house.begin()
    first, second = await house.enqueue(), await house.enqueue()

    explained = await told(house, second)

    assert explained.codes() == ["agent_busy", "turns_before"]
    assert explained.reasons[0].about == {"turn": str(running.id), "status": "running"}
    assert explained.reasons[1].about == {"ahead": 1, "first": str(first)}
    assert (explained.doing, ends(explained)) == ("It waits for the turns before it.", "A3")
    # Dispatched just before its time is over, it has the time of any other turn.
    assert explained.ends is not None
    assert explained.ends.terminal_by is not None
    assert explained.ends.terminal_by - explained.ends.ends_by > HOUR


@pytest.mark.contract("K22")
async def test_a_turn_of_an_agent_at_rest_waits_for_w9_and_one_that_was_merged_for_its_leader(house: House) -> None:
    await house.agent("pal", when_busy="merge")
    active, leader = await house.enqueue("pal"), await house.enqueue("pal")
    merged = await house.enqueue("pal", "more")

    assert (await told(house, merged)).codes() == ["merged"]
    assert (await told(house, merged)).reasons[0].about == {"turn": str(leader)}
    await house.write(
        "update ferryman.agent_inbox set archived_at = now(), pending_at = null, status = 'consumed' where id = $1",
        active,
    )
    await house.write(
        "update ferryman.agent_state_head set status = 'idle', active_agent_turn_id = null, active_inbox_id = null,"
        " output_box_id = null, turn_deadline = null, dispatch_deadline = null, ready_at = null"
    )
    assert (await told(house, leader)).codes() == ["not_dispatched"]


@pytest.mark.contract("K22")
async def test_a_running_turn_names_its_holder_and_whether_it_is_heard_of(house: House) -> None:
    taken = await house.begin()

    gone = await told(house, taken.id)
    await works(house, boot_id=OWNER)
    here = await told(house, taken.id)
    await works(house, boot_id=OWNER, lease=-HOUR)
    silent = await told(house, taken.id)

    assert (gone.doing, gone.codes(), ends(gone)) == ("It runs.", ["leased", "holder_silent"], "W7")
    assert here.codes() == ["leased"]
    assert here.reasons[0].says.startswith("Worker ferry (pid 7) holds it since ")
    assert silent.reasons[1].says.startswith("Its worker has not been heard of since ")
    await house.travel(31)
    await house.tick("W7")
    assert (await told(house, taken.id)).doing == "It was given up by its worker and waits for another."


@pytest.mark.contract("K22")
async def test_a_lost_envelope_and_a_stop_that_was_asked_for_are_told(house: House) -> None:
    await house.agent()
    turn = await house.enqueue()
    await works(house)
    await house.stop(turn, reason="enough")
    stopped = await told(house, turn)
    await house.write("update ferryman.agent_inbox set status = 'queued', pending_at = null where id = $1", turn)

    assert stopped.codes() == ["stop_asked", "in_line"]
    assert "(enough)" in stopped.reasons[0].says
    assert "envelope_lost" in (await told(house, turn)).codes()
    stop = await house.value("select id from ferryman.agent_inbox where message_type = 'stop'")
    message = await told(house, stop)
    assert (message.domain, message.doing, ends(message)) == ("message", "It waits to be taken in hand.", "W8")


@pytest.mark.contract("K22")
async def test_a_suspended_turn_names_each_call_and_who_does_it(house: House) -> None:
    taken = await house.begin("boss")
    tool = tool_call()
    calls = [tool, call_of("ask"), call_of("turn"), call_of("batch")]
    await house.settle(rules.suspension_of(taken, calls, owner=OWNER))
    asked = Source(agent_id="boss", turn=taken.id, depth=1)
    await house.agent("pal")
    child = await house.enqueue(
        "pal", source=asked, callback="delegate", callback_ref=reference(TENANT, "boss", "turn")
    )
    await plant_batch(house, taken.id, "batch")

    explained = await told(house, taken.id)

    said = {each.code: each for each in explained.reasons}
    assert set(said) == {"waiting_for_tool", "waiting_for_answer", "waiting_for_turn", "waiting_for_batch"}
    assert said["waiting_for_tool"].about["task"] == str(tool.task.task.id)
    assert said["waiting_for_tool"].says.endswith("does it, which is ready.")
    assert said["waiting_for_turn"].about["turn"] == str(child)
    assert "of pal, which is dispatched." in said["waiting_for_turn"].says
    assert said["waiting_for_batch"].says.endswith("of which 1 of 1 tasks are open.")
    assert "somebody outside answers the call ask." in said["waiting_for_answer"].says
    assert all(each.until is not None for each in explained.reasons)
    assert (explained.doing, ends(explained)) == ("It waits for 4 calls.", "W2")


def tool_call() -> Any:
    task = NewTask(
        ids.new_id(), TENANT, "default", "tool", "{}", 0, 300_000, 3, None, None, None, None, None, None, TOOL,
        reference(TENANT, "boss", "tool"), None, None,
    )  # fmt: skip
    return call_of("tool", task=Draft(task, frozenset()))


async def plant_batch(house: House, parent: UUID, call: str) -> UUID:
    batch = ids.new_id()
    await house.write(
        "insert into ferryman.pmo_batches (id, tenant, created_at, updated_at, deadline_at, task_count, recursion_depth,"
        " parent_agent_turn_id, parent_agent_id, parent_tool_call_id)"
        " values ($1, 'default', now(), now(), now() + interval '1 h', 1, 0, $2, 'boss', $3)",
        batch, parent, call,
    )  # fmt: skip
    await house.write(
        "insert into ferryman.pmo_batch_tasks (id, tenant, batch_id, created_at, updated_at, ends_at, next_retry_at,"
        " task_index, agent_turn_id, context_box_id, agent_id, profile, payload_hash)"
        " values (gen_random_uuid(), 'default', $1, now(), now(), now(), now(), 0, gen_random_uuid(), gen_random_uuid(),"
        " 'pal', 'writer', '')",
        batch,
    )
    return batch


@pytest.mark.contract("K22", "A21")
async def test_a_budget_with_nothing_left_is_told(house: House) -> None:
    budget = ids.new_id()
    async with house.db.transaction() as tx:
        await budgets.create(tx, budget, tenant=TENANT, tokens=10, tool_calls=1, cost=None)
    taken = await house.begin(budget=budget)
    before = (await told(house, taken.id)).codes()
    async with house.db.transaction() as tx:
        terms: Any = {"tenant": TENANT, "id": budget, "turn": taken.id, "name": "think"}
        assert await spending.reserve(tx, Amount(tokens=10), **terms)
        await spending.spend(tx, Amount(tokens=10), **terms)

    after = await told(house, taken.id)

    assert "budget_spent" not in before
    [said] = [each for each in after.reasons if each.code == "budget_spent"]
    assert "nothing left of 10 tokens:" in said.says


@pytest.mark.contract("K22")
async def test_an_ended_turn_says_how_and_nothing_ends_it(house: House) -> None:
    taken = await house.begin()
    await house.stop(taken.id, reason="enough")
    await house.carry_out_stops()

    explained = await told(house, taken.id)

    assert (explained.state, explained.codes(), explained.ends) == ("failed", ["ended"], None)
    assert explained.reasons[0].says.endswith(": The turn was stopped: enough.")


@pytest.mark.contract("K22", "K12")
async def test_an_agent_is_explained_by_its_name_to_its_own_tenant(house: House) -> None:
    await house.agent()
    rest = await told(house, "ann")
    await works(house, '{"profiles": ["reader"]}')
    unknown = await told(house, "ann")
    turn, _ = await house.enqueue(), await house.enqueue()
    busy = await told(house, "ann")

    assert (rest.domain, rest.state, rest.doing, rest.codes()) == ("agent", "idle", "It is at rest.", ["no_worker"])
    assert unknown.codes() == ["profile_unknown"]
    assert busy.codes() == ["doing_turn", "turns_waiting", "profile_unknown"]
    assert (busy.about["turn"], busy.ends) == (str(turn), None)
    async with house.db.transaction() as tx:
        await intake.create(tx, [NewAgent("other", "theirs", "writer")])
        order = Order(tenant="other", agent_id="theirs", turn=ids.new_id(), instruction="x")
        await intake.enqueue(tx, [order], house.parties, after=Aftermath())
        assert await explain(tx, "theirs", tenant=TENANT) is None
        assert await explain(tx, order.turn, tenant=TENANT) is None
        assert await explain(tx, "theirs", tenant="other") is not None


@pytest.mark.contract("K22", "K24")
async def test_after_an_outage_a_lease_is_not_judged_and_that_is_told(house: House) -> None:
    taken = await house.begin()
    await house.write("update ferryman.watchdog set grace_until = clock_timestamp() + interval '20 s'")

    assert "grace" in (await told(house, taken.id)).codes()


@pytest.mark.contract("W21", "K21")
async def test_doctor_says_in_words_what_ends_what_is_live(house: House) -> None:
    await house.suspend("c1")
    await house.begin("bob")
    await house.begin("eve")

    async with house.db.session() as tx:
        [reading] = await work.bounds(tx)

    assert "2 turns running, the first: W7 ends it at " in reading.says
    assert "1 turn suspended, the first: W2 answers what it waits for with a timeout at " in reading.says
    assert "1 call of a turn waiting, the first: W2 " in reading.says
    assert reading.says.count("; all have ended by ") == 4
