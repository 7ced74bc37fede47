"""`ferryman queue set`, `pause`, `resume` and `declare`."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from ferryman.cli import exits
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.queue.look import document, tell
from ferryman.cli.words import flag, says
from ferryman.kernel import errors

NONE = "none"


async def set_terms(
    name: Annotated[str, says("The queue.")],
    /,
    *,
    concurrency: Annotated[
        str | None, says("How many run at once, over all workers; none takes the limit away.")
    ] = None,
    key_concurrency: Annotated[str | None, says("How many of one limit_key run at once (else 1).")] = None,
    rate: Annotated[str | None, says("How many may start, such as 100/minute; none takes it away.")] = None,
    burst: Annotated[int | None, says("How many of them at one moment.")] = None,
    max_depth: Annotated[str | None, says("How many of a tenant may wait and run; none takes it away.")] = None,
    at_limit: Annotated[str | None, says("Then: refuse_newest, cancel_oldest or coalesce.")] = None,
    weight: Annotated[int | None, says("Its share of a worker beside other queues.")] = None,
    of: Annotated[
        str | None,
        Parameter(name="--for", help="For this tenant alone, within what holds for all; --tenant does the same."),
    ] = None,
    new: Annotated[bool, flag("Also if nobody knows such a queue yet.")] = False,
    options: Options = PLAIN,
) -> int:
    """Change what is agreed for a queue; what is not named stays. It holds for whatever starts from then on."""
    given: dict[str, Any] = {
        "concurrency": _number(concurrency, "--concurrency"), "key_concurrency": _number(key_concurrency, "--key-concurrency"),
        "rate": rate, "burst": burst, "max_depth": _number(max_depth, "--max-depth"), "at_limit": at_limit, "weight": weight,
    }  # fmt: skip
    changes = {field: None if value == NONE else value for field, value in given.items() if value is not None}
    if not changes:
        raise errors.UsageInvalid("Say what to change, such as --concurrency 5.")
    async with options.app() as app:
        await app.queues.set(name, tenant=of or options.tenant, new=new, **changes)
        queues = await app.queues.rows(name)
    screen = options.screen
    if screen.json:
        screen.document({"queue": document(queues[0]), "tenants": [document(each) for each in queues[1:]]})
    else:
        tell(screen, queues)
    return exits.OK


def _number(text: str | None, told: str) -> int | str | None:
    if text is None or text == NONE:
        return text
    try:
        return int(text)
    except ValueError:
        raise errors.UsageInvalid(f"{told}: expected a whole number or none, got {text!r}.") from None


async def pause(
    name: Annotated[str | None, says("The queue.")] = None,
    /,
    *,
    of: Annotated[str | None, Parameter(name="--for", help="Of this tenant alone; --tenant does the same.")] = None,
    task: Annotated[str | None, says("Tasks of this handler, whatever their queue.")] = None,
    options: Options = PLAIN,
) -> int:
    """Let nothing of a queue start, or no task of a handler; what runs goes on, and what comes in waits."""
    return await _pause(name, of=of, task=task, options=options, paused=True)


async def resume(
    name: Annotated[str | None, says("The queue.")] = None,
    /,
    *,
    of: Annotated[str | None, Parameter(name="--for", help="Of this tenant alone; --tenant does the same.")] = None,
    task: Annotated[str | None, says("Tasks of this handler, whatever their queue.")] = None,
    options: Options = PLAIN,
) -> int:
    """Let a paused queue, or a paused handler, go on."""
    return await _pause(name, of=of, task=task, options=options, paused=False)


async def _pause(name: str | None, *, of: str | None, task: str | None, options: Options, paused: bool) -> int:
    if (name is None) == (task is None):
        raise errors.UsageInvalid("Name a queue, or a handler by --task; one of the two.")
    whom = of or options.tenant
    if task is not None and whom is not None:
        raise errors.UsageInvalid("A handler is paused for all tenants: leave --for and --tenant out, or name a queue.")
    async with options.app() as app:
        if task is not None:
            await (app.queues.pause_task(task) if paused else app.queues.resume_task(task))
        elif name is not None:
            await (app.queues.pause(name, tenant=whom) if paused else app.queues.resume(name, tenant=whom))
    screen = options.screen
    if screen.json:
        screen.document({"queue": name, "tenant": whom, "task": task, "paused": paused})
    else:
        what = f"Tasks of {task}" if task is not None else f"{name} of {whom or 'all tenants'}"
        screen.print(f"{what}: {'paused; what runs goes on' if paused else 'going on'}.")
    return exits.OK


async def declare(*, app: Annotated[str, says("The app, as module:attribute.")], options: Options = PLAIN) -> int:
    """Store what an app declares of its queues, as its workers do when they start."""
    async with options.app(app) as opened:
        changed = await opened.declare_queues()
    screen = options.screen
    if screen.json:
        screen.document({"changed": list(changed)})
    else:
        screen.print(f"Changed: {', '.join(changed)}." if changed else "Nothing has changed.")
    return exits.OK
