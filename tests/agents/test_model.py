"""The programming model of agents: handlers, tools, steps, delegation, limits, budgets."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from ferryman import Budget, Ferryman, Limits, Spent, Turn
from ferryman.agents.model import Accepted
from ferryman.kernel import errors
from tests.agents.crew import at_work, end, fresh, output, send, until
from tests.patience import PATIENCE_SECONDS


@pytest.mark.contract("A9", "A13", "A14")
async def test_a_returned_value_is_the_deliverable(database_url: str) -> None:
    app = fresh(database_url)

    @app.agent
    async def echo(turn: Turn) -> Any:
        return {"said": turn.instruction, "by": turn.agent_id}

    async with at_work(app):
        turn = await send(app, echo, "hello")
        assert await turn.result(timeout=PATIENCE_SECONDS) == {"said": "hello", "by": "echo-1"}
        assert [kind for kind, _ in await output(app, turn)] == ["task.deliverable"]


@pytest.mark.contract("A9", "A10", "A11", "A12")
async def test_tools_run_as_tasks_and_several_at_once_suspend_once(database_url: str) -> None:
    app = fresh(database_url)
    runs = 0

    @app.tool
    async def double(number: int) -> int:
        return number * 2

    @app.tool(timeout_seconds=5)
    def half(number: int) -> float:
        return number / 2

    @app.agent
    async def counter(turn: Turn) -> Any:
        nonlocal runs
        runs += 1
        first = await turn.call_tool("double", number=4)
        both = await asyncio.gather(turn.call_tool("double", number=first), turn.call_tool("half", number=first))
        more = await turn.call_tools([("half", {"number": 3}), ("double", {"number": 3})])
        return [first, *both, *(each.value for each in more)]

    async with at_work(app):
        turn = await send(app, counter)
        assert await turn.result(timeout=PATIENCE_SECONDS) == [8, 16, 4.0, 1.5, 6]
        told = [each.name for each in await turn.timeline() if each.kind == "state"]
        assert told.count("suspended") == 3
        assert runs == 1  # the worker still had it


@pytest.mark.contract("A9", "A10")
async def test_a_call_that_cannot_be_made_is_its_own_failure_and_the_turn_goes_on(database_url: str) -> None:
    app = fresh(database_url)

    @app.tool(retries=0)
    async def strict(number: int) -> int:
        raise ValueError("no luck")

    @app.tool(retries=0)
    async def odd() -> Any:
        return object()

    @app.tool(retries=0)
    async def huge() -> Any:
        return "x" * (2 * 1024 * 1024)

    @app.agent
    async def clumsy(turn: Turn) -> Any:
        codes = []
        for name, arguments in (
            ("nothing\x00", {}),
            ("strict", {"number": "many"}),
            ("strict", {"number": 1, "more": 2}),
            ("strict", {"number": object()}),
            ("strict", {"number": 1}),
            ("odd", {}),
            ("huge", {}),
        ):
            [result] = await turn.call_tools([(name, arguments)])
            assert not result.ok
            codes.append(result.code)
        try:
            await turn.call_tool("strickt", number=1)
        except errors.ToolFailed as error:
            codes.append(error.message)
        return codes

    async with at_work(app):
        turn = await send(app, clumsy)
        assert await turn.result(timeout=PATIENCE_SECONDS) == [
            "tool_unknown",
            "arguments_invalid",
            "arguments_invalid",
            "arguments_invalid",
            "TASK_RETRY_EXHAUSTED",
            "TASK_INVALID_RESULT",
            "TASK_INVALID_RESULT",
            "strickt failed: The agent has no tool named strickt. Did you mean strict?",
        ]
        kinds = [kind for kind, _ in await output(app, turn)]
        assert kinds.count("tool.call") == kinds.count("tool.result") == 8


@pytest.mark.contract("A10")
async def test_an_external_tool_is_answered_by_its_call_id(database_url: str) -> None:
    app = fresh(database_url)

    @app.tool(external=True)
    def approve(what: str) -> None: ...

    @app.agent
    async def asker(turn: Turn) -> Any:
        return {"approved": await turn.call_tool("approve", what="it")}

    async with at_work(app):
        turn = await send(app, asker)
        await until(lambda: _suspended(turn))
        [call] = [each for each in await turn.timeline() if each.kind == "call"]
        answer = await app.agents.report(call.details["tool_call_id"], result=True)
        assert answer.status == "accepted"
        assert await turn.result(timeout=PATIENCE_SECONDS) == {"approved": True}
        again = await app.agents.report(call.details["tool_call_id"], result=False)
        assert isinstance(again, Accepted)
        assert not again.effect


async def _suspended(turn: Any) -> bool:
    return bool((await turn.record()).head_status == "suspended")


@pytest.mark.contract("A10", "A13")
async def test_a_result_that_terminates_ends_the_turn_and_names_its_card(database_url: str) -> None:
    app = fresh(database_url)

    @app.tool(after_execution="terminate")
    async def finish(value: int) -> int:
        return value

    @app.tool
    async def maybe() -> Any:
        return {"__after_execution__": "terminate", "answer": 42}

    @app.agent
    async def ender(turn: Turn) -> Any:
        await turn.call_tool(
            "finish" if turn.instruction == "finish" else "maybe",
            **({"value": 7} if turn.instruction == "finish" else {}),
        )
        raise AssertionError("the handler must not go on")

    async with at_work(app):
        turn = await send(app, ender, "finish")
        found = await turn.end(timeout=PATIENCE_SECONDS)
        assert (found.turn_status, await turn.deliverable(found)) == ("success", 7)
        assert found.tool_result_card_id is not None
        assert await end(app, ender, "maybe") == ("success", None, {"answer": 42})


@pytest.mark.contract("A14")
async def test_submit_result_says_what_is_missing_and_then_ends_the_turn(database_url: str) -> None:
    app = fresh(database_url)
    told: list[Any] = []

    @app.agent
    async def writer(turn: Turn) -> Any:
        told.append(await turn.submit_result(title="T"))
        await turn.submit_result({"title": "T", "body": "B"})
        raise AssertionError("the handler must not go on")

    async with at_work(app):
        ended = await end(app, writer, result_fields=["title", "body"])
        assert ended == ("success", None, {"title": "T", "body": "B"})
        assert told == [["body"]]


@pytest.mark.contract("A17")
async def test_a_step_is_remembered_with_what_it_used(database_url: str) -> None:
    app = fresh(database_url)
    asked = 0

    async def model() -> Spent[str]:
        nonlocal asked
        asked += 1
        return Spent("think", input_tokens=10, output_tokens=5, cost=0.25)

    def fails() -> None:
        raise ValueError("broken")

    @app.agent
    async def thinker(turn: Turn) -> Any:
        thought = await turn.step("model", model)
        await turn.write({"thought": thought})
        try:
            await turn.step("fails", fails)
        except errors.StepFailed as error:
            return [thought, error.message]

    async with at_work(app):
        turn = await send(app, thinker)
        assert await turn.result(timeout=PATIENCE_SECONDS) == ["think", "The step 'fails' failed: ValueError: broken."]
        steps = {each.name: each for each in await turn.timeline() if each.kind in ("step", "card")}
        assert steps["model"].details == {"input_tokens": 10, "output_tokens": 5, "cost": 0.25}
        assert (steps["model"].status, steps["fails"].status, asked) == ("completed", "failed", 1)
        assert ("agent.thought", {"thought": "think"}) in await output(app, turn)


@pytest.mark.contract("A9", "A7", "A6")
async def test_a_delegated_turn_is_a_call_whose_end_is_the_result(database_url: str) -> None:
    app = fresh(database_url, **{"agents.max_recursion_depth": 3})

    @app.agent
    async def helper(turn: Turn) -> Any:
        if turn.instruction == "fail":
            raise ValueError("cannot")
        return f"{turn.instruction} at {turn.depth}"

    @app.agent
    async def deeper(turn: Turn) -> Any:
        return await turn.delegate("deeper", "again")

    @app.agent(delegates_to=["helper", "deeper", "helper-7", "nobody"])
    async def boss(turn: Turn) -> Any:
        said = [await turn.delegate(helper, "one")]
        said += await asyncio.gather(turn.delegate("helper-7", "two"), turn.delegate("helper", "three"))
        for target, instruction in (("helper", "fail"), ("nobody", "x"), ("boss", "x"), ("deeper", "x")):
            try:
                await turn.delegate(target, instruction)
            except errors.ToolFailed as error:
                said.append(error.details["code"])
        return said

    async with at_work(app):
        await app.agents.ensure("helper-7", helper)
        status, _, said = await end(app, boss)
        assert status == "success"
        assert said == [
            "one at 1",
            "two at 1",
            "three at 1",
            "handler_failed",
            "agent_unknown",
            "delegation_refused",
            "tool_failed",
        ]


@pytest.mark.contract("A18")
@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"max_steps": 3}, "max_steps"),
        ({"max_tool_calls": 2}, "max_tool_calls"),
        ({"max_tokens": 25}, "max_tokens"),
        ({"max_cost": 2.5}, "max_cost"),
    ],
)
async def test_a_turn_that_passes_a_limit_ends_as_partial(database_url: str, limits: dict[str, Any], code: str) -> None:
    app = fresh(database_url)

    @app.tool
    async def nothing() -> None: ...

    def use() -> Spent[int]:
        return Spent(1, input_tokens=5, output_tokens=5, cost=1.0)

    @app.agent(limits=limits)
    async def greedy(turn: Turn) -> Any:
        while True:
            try:
                await turn.step("use", use)
                await turn.call_tool("nothing")
            except Exception:  # noqa: BLE001 - a limit is no exception that a handler could swallow
                continue

    async with at_work(app):
        status, said, content = await end(app, greedy)
        assert (status, said) == ("partial", code)
        assert (content["kind"], content["partial"]) == ("fallback_deliverable", True)


@pytest.mark.contract("A18")
async def test_the_wall_time_of_a_handler_that_never_returns_ends_its_turn(database_url: str) -> None:
    app = fresh(database_url)
    gone = asyncio.Event()

    @app.agent
    async def first(turn: Turn) -> None: ...

    @app.agent(limits=Limits(wall_time=timedelta(seconds=2)))
    async def sleeper(turn: Turn) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async with at_work(app):
        await end(app, first)  # the time runs before a worker has come to the turn: this one is awake
        assert (await end(app, sleeper))[:2] == ("partial", "wall_time_exceeded")
        await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)


@pytest.mark.contract("A21")
async def test_a_budget_holds_over_a_whole_tree_of_turns(database_url: str) -> None:
    app = fresh(database_url)
    used = 0

    def use() -> Spent[int]:
        nonlocal used
        used += 1
        return Spent(used, input_tokens=10)

    @app.tool
    async def nothing() -> None: ...

    @app.agent
    async def child(turn: Turn) -> Any:
        for _ in range(3):
            await turn.step("use", use, tokens=10)
        await turn.call_tool("nothing")
        return "done"

    @app.agent(budget=Budget(tokens=70, tool_calls=5))
    async def root(turn: Turn) -> Any:
        results = []
        for _ in range(3):
            try:
                results.append(await turn.delegate(child, "go"))
            except errors.ToolFailed as error:
                results.append(error.details["code"])
        return results

    async with at_work(app):
        status, _, said = await end(app, root)
        assert (status, said) == ("success", ["done", "done", "budget_exceeded"])
        assert used == 7
        async with app.database.session() as tx:
            [row] = await tx.fetch("select tokens_spent, tool_calls_spent from ferryman.budgets")
            [left] = await tx.fetch("select count(*) from ferryman.budget_reservations")
        assert (row[0], row[1], left[0]) == (70, 5, 0)


@pytest.mark.contract("A13", "K25")
async def test_every_way_a_handler_can_fail_is_an_end_with_a_code(database_url: str) -> None:  # noqa: C901 - one way each
    app = fresh(database_url)

    class Unreadable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @app.agent
    async def bad(turn: Turn) -> Any:  # noqa: C901 - one way each
        match turn.instruction:
            case "object":
                return object()
            case "nan":
                return float("nan")
            case "huge":
                return "x" * (2 * 1024 * 1024)
            case "raise":
                raise ValueError("nul \x00 \ud800")
            case "unreadable":
                raise Unreadable
            case "exit":
                raise SystemExit(3)
            case "base":
                raise BaseException("base")  # noqa: TRY002
            case "cancelled":
                raise asyncio.CancelledError
            case "unfit step":
                return await turn.step("odd", object)
            case "nested":
                return await turn.step("outer", lambda: turn.step("inner", int))
            case _:
                return None

    async with at_work(app):
        ends = {what: (await end(app, bad, what))[:2] for what in (
            "object", "nan", "huge", "raise", "unreadable", "exit", "base", "cancelled", "unfit step", "nested", "none",
        )}  # fmt: skip
        assert ends == {
            "object": ("failed", "result_not_serializable"),
            "nan": ("failed", "result_not_serializable"),
            "huge": ("failed", "result_not_serializable"),
            "raise": ("failed", "handler_failed"),
            "unreadable": ("failed", "handler_failed"),
            "exit": ("failed", "handler_failed"),
            "base": ("failed", "handler_failed"),
            "cancelled": ("failed", "handler_failed"),
            "unfit step": ("failed", "result_not_serializable"),
            "nested": ("failed", "step_nested"),
            "none": ("success", None),
        }


@pytest.mark.contract("A16")
async def test_a_stopped_handler_is_really_gone_running_or_waiting(database_url: str) -> None:
    app = fresh(database_url)
    begun, gone = asyncio.Event(), asyncio.Event()

    @app.tool(external=True)
    def never() -> None: ...

    @app.agent
    async def stubborn(turn: Turn) -> None:
        try:
            begun.set()
            if turn.instruction == "wait":
                await turn.call_tool("never")
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    if turn.instruction != "catch" or gone.is_set():
                        raise
                    gone.set()
        finally:
            gone.set()

    async with at_work(app):
        for instruction in ("run", "wait", "catch"):
            begun.clear()
            gone.clear()
            turn = await send(app, stubborn, instruction)
            await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
            if instruction == "wait":
                await until(partial(_suspended, turn))
            await turn.stop(reason="enough")
            found = await turn.end(timeout=PATIENCE_SECONDS)
            assert (found.turn_status, found.error_code) == ("failed", "stopped")
            await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)
        await until(lambda: not any("_live" in task.get_coro().__qualname__ for task in asyncio.all_tasks()))  # type: ignore[union-attr]


@pytest.mark.contract("A16")
async def test_a_stop_reaches_the_turns_that_were_asked_for(database_url: str) -> None:
    app = fresh(database_url)
    begun, gone = asyncio.Event(), asyncio.Event()

    @app.agent
    async def child(turn: Turn) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    @app.agent
    async def parent(turn: Turn) -> Any:
        return await turn.delegate(child, "go")

    async with at_work(app):
        turn = await send(app, parent)
        await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        await turn.stop()
        assert (await turn.end(timeout=PATIENCE_SECONDS)).error_code == "stopped"
        await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)
        [made] = await app.agents.list(profile="child")
        await until(lambda: _at_rest(app, made.agent_id))
        [ended] = await app.agents.turns(made.agent_id)
        assert (ended.turn_status, ended.error_code) == ("failed", "stopped")


async def _at_rest(app: Ferryman, agent_id: str) -> bool:
    return (await app.agents.get(agent_id)).status == "idle"


@pytest.mark.contract("A15")
async def test_what_a_turn_emits_reaches_whoever_listens_and_is_stored_nowhere(database_url: str) -> None:
    app = fresh(database_url)
    listening = asyncio.Event()

    @app.agent
    async def talker(turn: Turn) -> str:
        await listening.wait()
        for word in ("one", "two"):
            turn.emit(word)
        return "done"

    async with at_work(app):
        turn = await send(app, talker)
        heard = []

        async def listen() -> None:
            async for text in turn.stream():
                heard.append(text)

        listener = asyncio.create_task(listen())
        await until(lambda: str(turn.id) in app._open.streams._listeners)
        listening.set()
        await turn.result(timeout=PATIENCE_SECONDS)
        await asyncio.wait_for(listener, PATIENCE_SECONDS)
        assert heard == ["one", "two"]
        assert [kind for kind, _ in await output(app, turn)] == ["task.deliverable"]


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda app: app.agent(lambda turn: None), "name: expected 1 to 200 characters"),
        (lambda app: app.agent(name="x")(lambda turn: None), "x: an agent's function is async"),
        (lambda app: app.agent(limits={"max_stpes": 3})(until), "limits: "),
        (lambda app: app.tool(timeout_seconds=0)(until), "timeout"),
        (lambda app: app.tool(after_execution="stop")(until), "after_execution: expected suspend or terminate"),
    ],
)  # fmt: skip
def test_what_is_registered_wrongly_is_told_at_once(declare: Any, said: str) -> None:
    app = Ferryman("postgresql://nowhere")

    with pytest.raises(errors.FerrymanError, match=said):
        declare(app)
