"""fork_join as users see it: from an agent's turn and from outside, with real workers."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from ferryman import Ferryman, Turn
from ferryman.agents.work.profiles import Budget
from ferryman.app import batches as doors
from ferryman.batches import intake
from ferryman.kernel import errors
from ferryman.testing import travel
from tests.agents.crew import at_work, end, fresh, send, until
from tests.patience import PATIENCE_SECONDS


def task(ref: str, instruction: str = "go", strategy: str = "new", **more: Any) -> dict[str, Any]:
    return {"target_strategy": strategy, "target_ref": ref, "instruction": instruction, **more}


def an_app(database_url: str, **settings: Any) -> Ferryman:
    app = fresh(database_url, **settings)

    @app.agent
    async def child(turn: Turn) -> Any:
        if turn.instruction == "fail":
            raise ValueError("no")
        if turn.instruction == "slow":
            await asyncio.sleep(60)
        return {"summary": f"did {turn.instruction}"}

    @app.agent
    async def parent(turn: Turn) -> Any:
        return await turn.fork_join(**turn.instruction)

    return app


@pytest.mark.contract("B1", "B4", "B6", "B7", "B9", "A9")
async def test_a_turn_forks_children_and_gets_their_results_in_order(database_url: str) -> None:
    async with at_work(an_app(database_url)) as app:
        asked = {"tasks": [task("child", str(n)) for n in range(8)]}
        status, code, result = await end(app, "parent", asked)

        assert (status, code) == ("success", None), result
        assert result["status"] == "success"
        assert [each["task_index"] for each in result["results"]] == list(range(8))
        assert [each["summary"] for each in result["results"]] == [f"did {n}" for n in range(8)]
        assert all(set(each) == {"task_index", "status", "summary", "output_box_id"} for each in result["results"])


@pytest.mark.contract("B10", "B7", "B9")
async def test_a_batch_from_outside_comes_back_partial(database_url: str) -> None:
    async with at_work(an_app(database_url)) as app:
        result = await app.fork_join([task("child", "a"), task("child", "fail"), task("child", "b")])

        assert result["status"] == "partial"
        assert [(each["status"], each.get("error")) for each in result["results"]] == [
            ("success", None), ("failed", "handler_failed"), ("success", None),
        ]  # fmt: skip


@pytest.mark.contract("B7", "B8", "A16")
async def test_fail_fast_ends_a_slow_childs_handler_for_real(database_url: str) -> None:
    app = fresh(database_url)
    gone, begun = asyncio.Event(), asyncio.Event()

    @app.agent
    async def child(turn: Turn) -> None:
        if turn.instruction == "fail":
            await begun.wait()
            raise ValueError("no")
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            gone.set()

    async with at_work(app):
        batch = await app.batches.fork([task("child", "slow"), task("child", "fail")], fail_fast=True)
        result = await batch.result(timeout=PATIENCE_SECONDS)

        assert (result["status"], [each["status"] for each in result["results"]]) == ("failed", ["canceled", "failed"])
        await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)
        turn = (await batch.tasks())[0].current_agent_turn_id
        assert turn is not None
        found = await app.agents.wait(turn)
        assert (found.turn_status, found.error_code) == ("failed", "stopped")


@pytest.mark.contract("B8", "B14", "A11")
async def test_a_parent_hears_of_the_deadline_and_goes_on(database_url: str) -> None:
    app = an_app(database_url, **{"worker.lease_sweep_seconds": 0.2})
    async with at_work(app):
        asked = {"tasks": [task("child", "quick"), task("child", "slow")], "deadline_seconds": 60}
        turn = await send(app, "parent", asked)
        await until(lambda: _stand(app, "success", "dispatched"))
        async with app.database.transaction() as tx:
            await travel(tx, timedelta(seconds=60))
        result = await turn.result(timeout=PATIENCE_SECONDS)
        assert result["status"] == "timeout"
        assert [each["status"] for each in result["results"]] == ["success", "canceled"]
        assert result["results"][1]["error"] == "deadline"


async def _stand(app: Ferryman, *statuses: str) -> bool:
    """Tell whether the tasks of the only batch are so far."""
    found = await app.batches.list()
    return bool(found) and [each.status for each in await app.batches.tasks(found[0].id)] == list(statuses)


@pytest.mark.contract("B1", "B2")
async def test_a_fork_that_is_refused_is_the_failed_result_of_its_call(database_url: str) -> None:
    app = fresh(database_url)

    @app.agent
    async def child(turn: Turn) -> None: ...

    @app.agent(delegates_to=["other"])
    async def parent(turn: Turn) -> Any:
        told = []
        for asked in turn.instruction:
            try:
                await turn.fork_join(**asked)
            except errors.ToolFailed as failed:
                told.append((failed.details["code"], failed.message))
        return told

    async with at_work(app):
        asked = [
            {"tasks": []},
            {"tasks": [task("child")], "retry_batch_id": "b"},
            {"tasks": [task("nobody")]},
            {"tasks": [task("child")]},
        ]
        status, _, told = await end(app, parent, asked)
        assert status == "success", told
        assert [code for code, _ in told] == ["bad_request", "bad_request", "bad_request", "delegation_refused"]
        assert "retry_batch_id: is not supported any more" in told[1][1]
        assert await app.batches.list() == []
        with pytest.raises(errors.BatchRefused) as caught:
            await app.fork_join([task("nobody")])
        assert caught.value.details["field"] == "tasks[0].target_ref"


@pytest.mark.contract("B11", "A6")
async def test_batches_nest_and_stopping_the_root_stops_the_tree(database_url: str) -> None:
    app = fresh(database_url)
    leaves = 0

    @app.agent
    async def node(turn: Turn) -> Any:
        nonlocal leaves
        depth = int(turn.instruction)
        if depth == 0:
            leaves += 1
            await asyncio.sleep(600)
        return (await turn.fork_join([task("node", str(depth - 1))] * 2))["status"]

    async with at_work(app):
        root = await send(app, node, "2")
        await until(lambda: leaves == 4)
        await root.stop()
        await until(lambda: _still(app), PATIENCE_SECONDS)
        batches = await app.batches.list()
        assert [(each.status, each.reason) for each in batches] == [("failed", "parent_ended")] * 3
        assert {each.recursion_depth for each in batches} == {0, 1}


async def _still(app: Ferryman) -> bool:
    """Tell whether no turn is live any more."""
    async with app.database.session() as tx:
        [row] = await tx.fetch("select count(*) from ferryman.agent_inbox where archived_at is null")
    return bool(row[0] == 0)


@pytest.mark.contract("B11", "A7")
async def test_nesting_ends_at_the_depth_limit(database_url: str) -> None:
    app = fresh(database_url, **{"agents.max_recursion_depth": 3})

    @app.agent
    async def node(turn: Turn) -> Any:
        try:
            return (await turn.fork_join([task("node")]))["results"][0]["summary"]
        except errors.ToolFailed as failed:
            return f"{turn.depth} {failed.details['code']}"

    async with at_work(app):
        assert (await end(app, node))[2] == "2 recursion_depth_exceeded"


@pytest.mark.contract("A21", "B10")
async def test_a_budget_holds_over_the_whole_batch(database_url: str) -> None:
    app = fresh(database_url)

    @app.tool
    async def look() -> int:
        return 1

    @app.agent
    async def child(turn: Turn) -> Any:
        if turn.instruction == "fork":
            below = await turn.fork_join([task("child"), task("child")])
            return {"summary": " ".join(sorted(each["status"] for each in below["results"]))}
        return await turn.call_tool("look")

    async with at_work(app):
        batch = await app.batches.fork([task("child") for _ in range(5)], budget=Budget(tool_calls=3))
        result = await batch.result(timeout=PATIENCE_SECONDS)
        met = sorted((each["status"], each.get("error")) for each in result["results"])
        assert met == [("partial", "budget_exceeded")] * 2 + [("success", None)] * 3
        assert result["status"] == "partial"
        # Down the tree as well: four want to look, below two who fork, and one of them cannot.
        batch = await app.batches.fork([task("child", "fork")] * 2, budget=Budget(tool_calls=5))
        result = await batch.result(timeout=PATIENCE_SECONDS)
        told = sorted(" ".join(each["summary"] for each in result["results"]).split())
        assert told == ["partial", "success", "success", "success"]


@pytest.mark.contract("A9", "B4")
async def test_a_handler_that_is_run_anew_joins_the_same_batch(database_url: str) -> None:
    first, second = an_app(database_url), an_app(database_url)
    async with first:
        async with first.worker(grace=timedelta(0)):
            turn = await send(first, "parent", {"tasks": [task("child", "slow")], "deadline_seconds": 600})
            await until(lambda: _sent(first))
        [batch] = await first.batches.list()
        async with at_work(second):
            await second.batches.cancel(batch.id)
            result = await turn.result(timeout=PATIENCE_SECONDS)
        assert (result["status"], len(await first.batches.list())) == ("failed", 1)


async def _sent(app: Ferryman) -> bool:
    found = await app.batches.list()
    return bool(found) and all(each.dispatched_at for each in await app.batches.tasks(found[0].id))


@pytest.mark.contract("K24", "B4")
async def test_a_fork_whose_answer_was_lost_is_one_batch_and_no_repeat(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with an_app(database_url) as app:
        forks = app.batches._forks
        make, tries = forks._make, 0

        async def lose(line: Any, asked: Any) -> Any:
            nonlocal tries
            answers = await make(line, asked)
            tries += 1
            if tries == 1:
                raise errors.DatabaseUnavailable("the answer was lost")
            return answers

        monkeypatch.setattr(forks, "_make", lose)
        # A third has more digits than are stored; who has made a batch is not told that it differs.
        batch = await app.batches.fork([task("child"), task("child")], budget=Budget(cost=1 / 3))
        assert (tries, batch.idempotent_hit, len(await batch.tasks())) == (2, False, 2)
        assert [each.id for each in await app.batches.list()] == [batch.id]


@pytest.mark.contract("B10", "K11")
async def test_a_batch_from_outside_can_be_asked_for_again(database_url: str) -> None:
    app = an_app(database_url)
    async with app:
        asked: dict[str, Any] = {"tasks": [task("child")], "id": uuid4(), "budget": Budget(tokens=9, cost=0.1 + 0.2)}
        for _ in range(2):
            assert (await app.batches.fork(**asked)).id == asked["id"]
        assert (await app.batches.fork(**{**asked, "id": str(asked["id"])})).idempotent_hit
        differing: list[tuple[str, Any]] = [
            ("channel", "side"), ("budget", Budget(tokens=9, cost=0.2)), ("budget", Budget(tokens=8, cost=0.3)),
            ("budget", Budget(tokens=9, tool_calls=1, cost=0.3)), ("budget", None), ("fail_fast", True),
            ("deadline_seconds", 9), ("tasks", [task("child")] * 2), ("tasks[0]", [task("child", "else")]),
        ]  # fmt: skip
        for field, value in differing:
            with pytest.raises(errors.BatchDuplicate) as differs:
                await app.batches.fork(**{**asked, field.partition("[")[0]: value})
            assert differs.value.details["field"] == field
        unfit: list[tuple[str, Any]] = [
            ("id", "batch-1"),
            ("id", 7),
            ("channel", "a.b"),
            ("channel", None),
            ("channel", 7),
        ]
        for field, value in unfit:
            with pytest.raises(errors.BatchRefused) as refused:
                await app.batches.fork(**{**asked, field: value})
            assert refused.value.details["field"] == field
        assert len(await app.batches.list()) == 1
        with pytest.raises(errors.BatchNotFound):
            await app.batches.get(uuid4())


@pytest.mark.contract("B10")
async def test_who_gave_up_before_its_fork_was_sent_has_forked_nothing(database_url: str) -> None:
    async with an_app(database_url) as app:
        callers = [asyncio.create_task(app.batches.fork([task("child")])) for _ in range(20)]
        await asyncio.sleep(0)  # the first is on its way, the others stand behind it
        for each in callers[1:]:
            each.cancel()
        await asyncio.wait(callers)
        last = await app.batches.fork([task("child")])
        assert {each.id for each in await app.batches.list()} == {callers[0].result().id, last.id}


@pytest.mark.contract("B10", "B12")
async def test_the_tasks_of_ended_batches_are_read_for_those_who_join_and_in_bounded_sets(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, sets = intake.read.tasks_of, list[int]()

    async def heed(tx: Any, batches: Any) -> Any:
        sets.append(len(batches))
        return await read(tx, batches)

    monkeypatch.setattr(intake.read, "tasks_of", heed)
    monkeypatch.setattr(doors, "TASKS_AT_ONCE", 4)
    async with an_app(database_url) as app:
        forked = [await app.batches.fork([task("child")] * 2) for _ in range(5)]
        for each in forked:
            await each.cancel()
        ended = await asyncio.gather(*(app.batches.wait(each.id, timeout=PATIENCE_SECONDS) for each in forked))
        assert ([each.status for each in ended], sets) == (["failed"] * 5, [])
        joined = await asyncio.gather(*(each.result(timeout=PATIENCE_SECONDS) for each in forked))
        assert [len(each["results"]) for each in joined] == [2] * 5
    assert max(sets) <= 2
