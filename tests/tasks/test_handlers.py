"""Handlers: async, plain, in a child process; what fits them and what does not (T16)."""

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

import pydantic
import pytest

from ferryman import Context, Ferryman, current
from ferryman.kernel import errors
from tests.patience import PATIENCE_SECONDS
from tests.tasks import children
from tests.tasks.conftest import MakeApp


class Order(pydantic.BaseModel):
    number: int
    lines: list[str] = []


@dataclass
class Point:
    x: int
    y: int


@pytest.mark.contract("T16")
async def test_an_async_handler_runs_on_the_workers_loop(make_app: MakeApp) -> None:
    async def add(a: int, b: int = 2) -> dict[str, Any]:
        return {"sum": a + b, "here": threading.current_thread() is threading.main_thread()}

    app = await make_app(add)
    handle = await app.tasks.create(add, a=1)

    async with app.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == {"sum": 3, "here": True}


@pytest.mark.contract("T16")
async def test_plain_functions_run_in_threads_side_by_side(make_app: MakeApp) -> None:
    together = threading.Barrier(5, timeout=60)

    def meet(n: int) -> int:
        together.wait()
        return n

    app = await make_app(meet)
    handles = await app.tasks.create_many(meet, [{"n": n} for n in range(5)])

    async with app.worker():
        results = [await handle.result(timeout=PATIENCE_SECONDS) for handle in handles]

    assert results == [0, 1, 2, 3, 4]


@pytest.mark.contract("T16")
async def test_a_process_handler_runs_elsewhere_with_json_in_and_out(make_app: MakeApp) -> None:
    app = await make_app((children.double, {"process": True}), (children.weigh, {"process": True}))
    doubled = await app.tasks.create(children.double, n=21)
    weighed = await app.tasks.create(children.weigh, parcel={"weight": 3})

    async with app.worker():
        assert await doubled.result(timeout=PATIENCE_SECONDS) == 42
        answer = await weighed.result(timeout=PATIENCE_SECONDS)

    assert (answer["weight"], answer["to"]) == (3, "nobody")
    assert answer["pid"] != os.getpid()


@pytest.mark.contract("T16", "R6")
@pytest.mark.parametrize(
    ("function", "payload", "reason"),
    [
        (children.raises, {"text": "no"}, "ValueError: no\\x00no"),
        (children.refuse, {"text": "never"}, "never"),
        (children.leave, {"code": 3}, "SystemExit: 3"),
        (children.vanish, {}, "left with exit code 9"),
        (children.die, {}, "was ended by SIGKILL"),
        (children.unfit, {}, "set"),
        (children.large, {}, "bytes"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_every_end_of_a_child_is_the_end_of_its_attempt(
    make_app: MakeApp, function: Any, payload: dict[str, Any], reason: str
) -> None:
    app = await make_app((function, {"process": True}))
    handle = await app.tasks.create(function, payload, max_retries=0)

    async with app.worker():
        with pytest.raises(errors.FerrymanError):
            await handle.result(timeout=PATIENCE_SECONDS)

    task = await handle.refresh()
    assert (task.state, task.attempt) == ("failed", 1)
    assert reason in (task.last_error_reason or "")


HINTED: list[tuple[Any, Any, Any]] = []


Handled = TypeVar("Handled", bound=Callable[..., Any])


def hinted(payload: Any, shown: Any) -> Callable[[Handled], Handled]:
    def keep(function: Handled) -> Handled:
        HINTED.append((function, payload, shown))
        return function

    return keep


@hinted({"order": {"number": 7}}, "Order 7 []")
async def takes_model(order: Order) -> str:
    return f"{type(order).__name__} {order.number} {order.lines}"


@hinted({"point": {"x": 1, "y": 2}}, "Point(x=1, y=2)")
async def takes_dataclass(point: Point) -> str:
    return repr(point)


@hinted({"number": 7, "lines": ["a"]}, "Order")
async def takes_whole_model(payload: Order) -> str:
    return type(payload).__name__


@hinted([1, 2, 3], "6")
async def takes_whole_list(payload: list[int]) -> str:
    return str(sum(payload))


@hinted({"a": 1, "b": {"c": []}}, "['a', 'b']")
async def takes_keywords(**everything: Any) -> str:
    return str(sorted(everything))


@hinted({"at": "2026-02-25T12:00:00Z", "id": "0189f7a0-0000-7000-8000-000000000000"}, "datetime UUID")
async def takes_rich_types(at: datetime, id: UUID) -> str:
    return f"{type(at).__name__} {type(id).__name__}"


@hinted({"n": 5}, "5 False 1")
async def takes_context(n: Annotated[int, pydantic.Field(gt=0)], ctx: Context) -> str:
    return f"{n} {ctx.ended} {current().attempt}"


@hinted({}, "1 x")
async def takes_defaults(a: int = 1, b: str = "x") -> str:
    return f"{a} {b}"


@hinted({"anything": None}, "None")
async def takes_unhinted(anything) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return repr(anything)


@pytest.mark.contract("T16")
@pytest.mark.parametrize(("function", "payload", "shown"), HINTED, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_payload_arrives_as_its_hints_say(make_app: MakeApp, function: Any, payload: Any, shown: str) -> None:
    app = await make_app(function)
    handle = await app.tasks.create(function, payload)

    async with app.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == shown


UNFIT = [
    (takes_model, {"order": {"number": "seven"}}, "order.number"),
    (takes_model, {}, "order"),
    (takes_model, {"order": {"number": 7}, "more": 1}, "more"),
    (takes_model, [1], "payload"),
    (takes_whole_list, {"a": 1}, "payload"),
    (takes_whole_list, [1, "x"], "1"),
    (takes_context, {"n": 0}, "n"),
    (takes_context, {"n": 1, "ctx": {}}, "ctx"),
    (takes_rich_types, {"at": "soon", "id": "0189f7a0-0000-7000-8000-000000000000"}, "at"),
]


@pytest.mark.contract("T16")
@pytest.mark.parametrize(("function", "payload", "field"), UNFIT)
async def test_a_payload_that_does_not_fit_is_refused_where_the_handler_is_known(
    make_app: MakeApp, function: Any, payload: Any, field: str
) -> None:
    app = await make_app(function)

    with pytest.raises(errors.TaskInvalidPayload) as refusal:
        await app.tasks.create(function, payload)

    assert refusal.value.details["field"] == field
    assert await app.tasks.list() == []


@pytest.mark.contract("T16", "T4")
@pytest.mark.parametrize(("function", "payload", "field"), UNFIT)
async def test_elsewhere_it_fails_when_it_runs_and_is_not_tried_again(
    make_app: MakeApp, function: Any, payload: Any, field: str
) -> None:
    worker, client = await make_app(function), await make_app()
    handle = await client.tasks.create(function.__name__, payload)

    async with worker.worker():
        with pytest.raises(errors.TaskInvalidPayload):
            await handle.result(timeout=PATIENCE_SECONDS)

    task = await handle.refresh()
    assert (task.state, task.attempt, task.last_error_code) == ("failed", 1, "TASK_INVALID_PAYLOAD")
    assert f"{field}:" in (task.last_error_reason or "")


@pytest.mark.contract("T16")
def test_a_function_that_cannot_be_a_handler_is_refused_when_it_is_declared() -> None:
    app = Ferryman("postgresql:///nowhere")

    async def positional(a: int, /) -> None: ...
    async def star(*a: int) -> None: ...
    async def unknown(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def local() -> None: ...

    for function in (positional, star, unknown):
        with pytest.raises(errors.HandlerInvalid):
            app.task(function)
    with pytest.raises(errors.HandlerInvalid):
        app.task(process=True)(local)
    app.task(name="again")(local)
    with pytest.raises(errors.HandlerInvalid):
        app.task(name="again")(local)


@pytest.mark.contract("T16")
async def test_an_error_of_ours_inside_a_handler_is_the_handlers_failure(make_app: MakeApp) -> None:
    async def creates_badly() -> None:
        raise errors.TaskUnknownHandler("of another task")

    app = await make_app(creates_badly)
    handle = await app.tasks.create(creates_badly, max_retries=0)

    async with app.worker():
        with pytest.raises(errors.TaskRetryExhausted) as failure:
            await handle.result(timeout=PATIENCE_SECONDS)

    assert "TASK_EXECUTION_FAILED: TaskUnknownHandler" in str(failure.value.details["reason"])


@pytest.mark.contract("T16", "K9")
@pytest.mark.parametrize("message", ["", "by a scope of its own"])
async def test_a_handler_cancelled_from_inside_has_failed(make_app: MakeApp, message: str) -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError(*([message] if message else []))

    app = await make_app(cancels)
    handle = await app.tasks.create(cancels, max_retries=1, backoff=0)

    async with app.worker():
        with pytest.raises(errors.TaskRetryExhausted):
            await handle.result(timeout=PATIENCE_SECONDS)

    assert (await handle.refresh()).attempt == 2
