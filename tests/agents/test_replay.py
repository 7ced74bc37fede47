"""A turn that another worker takes in hand is run anew: what is remembered is answered, what moved is an error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferryman import Ferryman, Turn
from ferryman.kernel import faults
from tests.agents.crew import at_work, end, fresh, send, until
from tests.patience import PATIENCE_SECONDS

NEVER_KEPT = {"agents.kept_handlers": 0}


def counting(app: Ferryman) -> dict[str, int]:
    """Register an agent that counts how often each of its parts is run."""
    count = {"handler": 0, "step": 0, "branch": 0, "tool": 0}

    @app.tool
    async def double(number: int) -> int:
        count["tool"] += 1
        return number * 2

    def once(what: str) -> int:
        count[what] += 1
        return count[what]

    @app.agent
    async def worker(turn: Turn) -> Any:
        count["handler"] += 1

        async def branch(number: int) -> int:
            await turn.step(f"branch-{number}", once, "branch")
            return int(await turn.call_tool("double", number=number)) if number == 1 else number

        first = await turn.step("first", once, "step")
        await turn.write(f"thought {first}")
        second = await turn.call_tool("double", number=first)
        both = await asyncio.gather(branch(1), branch(2), asyncio.sleep(0))
        third = await turn.step("first", once, "step")
        return [first, second, both[0], both[1], third]

    return count


@pytest.mark.contract("A9", "A12")
async def test_a_replay_does_nothing_twice(database_url: str) -> None:
    app = fresh(database_url, **NEVER_KEPT)
    count = counting(app)

    async with at_work(app):
        turn = await send(app, "worker")
        assert await turn.result(timeout=PATIENCE_SECONDS) == [1, 2, 2, 2, 2]
        assert count == {"handler": 3, "step": 2, "branch": 2, "tool": 2}
        kinds = [each.name for each in await turn.timeline() if each.kind == "card"]
        assert kinds == ["agent.thought"]


@pytest.mark.contract("A9", "K24")
async def test_what_a_turn_wrote_is_written_once_though_the_answer_was_lost(database_url: str) -> None:
    app = fresh(database_url)
    count = counting(app)

    with faults.armed("step.committed=away@2;step.committed=away@5"):
        async with at_work(app):
            turn = await send(app, "worker")
            assert await turn.result(timeout=PATIENCE_SECONDS) == [1, 2, 2, 2, 2]
            assert [each.name for each in await turn.timeline() if each.kind == "card"] == ["agent.thought"]

    assert (count["step"], count["branch"], count["tool"]) == (2, 2, 2)


@pytest.mark.contract("A9")
async def test_a_worker_that_still_has_the_handler_goes_on_without_a_replay(database_url: str) -> None:
    app = fresh(database_url)
    count = counting(app)

    async with at_work(app):
        await (await send(app, "worker")).result(timeout=PATIENCE_SECONDS)
        assert count == {"handler": 1, "step": 2, "branch": 2, "tool": 2}


@pytest.mark.contract("A9")
async def test_a_handler_that_takes_another_way_at_its_replay_ends_its_turn(database_url: str) -> None:
    app = fresh(database_url, **NEVER_KEPT)
    runs: dict[str, int] = {}

    @app.tool
    async def nothing() -> None: ...

    @app.agent
    async def fickle(turn: Turn) -> Any:
        runs[turn.instruction] = runs.get(turn.instruction, 0) + 1
        again = runs[turn.instruction] > 1
        match turn.instruction:
            case "other step":
                await turn.step("second" if again else "first", int)
            case "step before":
                if again:
                    await turn.step("before", int)
            case "other tool":
                try:
                    await turn.call_tool("nothing_else" if again else "nothing")
                except Exception:  # noqa: BLE001 - a handler may catch what it likes
                    return "caught"
                return None
            case "ambiguous":
                await asyncio.gather(*(_branch(turn) for _ in range(2)))
        await turn.call_tool("nothing")
        return "not reached"

    async with at_work(app):
        ends = {
            what: (await end(app, fickle, what))[:2]
            for what in ("other step", "step before", "other tool", "ambiguous")
        }
        assert ends == {
            "other step": ("failed", "replay_mismatch"),
            "step before": ("failed", "replay_mismatch"),
            "other tool": ("failed", "replay_mismatch"),
            "ambiguous": ("failed", "step_ambiguous"),
        }


async def _branch(turn: Turn) -> None:
    await turn.step("same", asyncio.sleep, 0)


@pytest.mark.contract("A9", "P10")
async def test_of_many_waiting_turns_only_some_handlers_stay_and_all_end(database_url: str) -> None:
    app = fresh(database_url, **{"agents.kept_handlers": 3})
    alive = begun = 0

    @app.tool(external=True)
    def outside() -> None: ...

    @app.agent
    async def waiter(turn: Turn) -> Any:
        nonlocal alive, begun
        begun += 1
        alive += 1
        try:
            return await turn.call_tool("outside")
        finally:
            alive -= 1

    async with at_work(app):
        turns = []
        for n in range(10):
            await app.agents.ensure(f"waiter-{n}", waiter)
            turns.append(await app.agents.send(f"waiter-{n}", "wait"))
        count = "select count(*) from ferryman.agent_state_head where status = 'suspended'"

        async def all_wait() -> bool:
            async with app.database.session() as tx:
                [row] = await tx.fetch(count)
            return bool(row[0] == len(turns))

        await until(all_wait)
        await until(lambda: alive == 3)
        for turn in turns:
            [call] = [each for each in await turn.timeline() if each.kind == "call"]
            await app.agents.report(call.details["tool_call_id"], result=str(turn.id))
        assert [await turn.result(timeout=PATIENCE_SECONDS) for turn in turns] == [str(turn.id) for turn in turns]
        assert begun == 17  # ten that began, and seven that were run anew


@pytest.mark.contract("A9", "K5")
async def test_a_turn_handed_back_at_a_drain_goes_on_with_another_worker(database_url: str) -> None:
    app = fresh(database_url)
    gate, begun = asyncio.Event(), 0
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return steps

    @app.agent
    async def patient(turn: Turn) -> Any:
        nonlocal begun
        first = await turn.step("first", step)
        begun += 1
        await gate.wait()
        return [first, steps]

    async with app:
        async with app.worker(grace=__import__("datetime").timedelta(0)):
            turn = await send(app, patient)
            await until(lambda: begun == 1)
        gate.set()
        async with app.worker():
            assert await turn.result(timeout=PATIENCE_SECONDS) == [1, 1]
            assert begun == 2
