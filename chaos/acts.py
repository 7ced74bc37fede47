"""What producers do: each act has a key and arguments that are written down first, so that it can be repeated unchanged.

A producer repeats what it does not know to be done: after an error that says so, and after its own death, in its next life.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from chaos import terms
from chaos.crew import BROKEN, DAWN, SLOW
from ferryman import Ferryman
from ferryman.kernel import errors, payload
from ferryman.tasks.intake import create as births
from ferryman.tasks.rules import request

Arguments = dict[str, Any]
Told = dict[str, Any]

SAILORS = 6
OARS = 3


async def jobs(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Create some tasks at once, by key."""
    keys = [f"{key}-{n}" for n in range(arguments["count"])]
    payloads = [{"key": each, **arguments["more"]} for each in keys]
    made = await app.tasks.create_many(arguments["name"], payloads, idempotency_keys=keys)
    return {
        "tasks": {each: str(handle.id) for each, handle in zip(keys, made, strict=True)},
        "hit": sum(handle.idempotent_hit for handle in made),
    }


async def one(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Create one task, by key."""
    handle = await app.tasks.create(arguments["name"], {"key": key, **arguments["more"]}, idempotency_key=key)
    return {"tasks": {key: str(handle.id)}, "hit": int(handle.idempotent_hit)}


async def bare(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Create one task without a key, as most creates are: whoever repeats it makes another."""
    handle = await app.tasks.create(arguments["name"], {"key": key, **arguments["more"]})
    return {"tasks": {key: str(handle.id)}, "hit": 0}


async def within(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Write a row of one's own and create a task, in one transaction of one's own: both or none."""
    async with app.database.transaction() as tx:
        await tx.fetch("insert into public.ledger (key) values ($1) on conflict do nothing", key)
        handle = await app.tasks.create("job", {"key": key}, idempotency_key=key, connection=tx)
    return {"tasks": {key: str(handle.id)}, "hit": int(handle.idempotent_hit)}


async def owed(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Create a task whose end is owed to somebody, who is told in the transaction that ends it."""
    draft = request.draft(
        tenant="default",
        name="job",
        payload=payload.encode({"key": key}),
        defaults=request.Defaults(max_retries=terms.RETRIES),
        idempotency_key=key,
        callback="debt",
        callback_ref=key,
    )
    async with app.database.transaction() as tx:
        await tx.fetch("insert into public.owed (ref) values ($1) on conflict do nothing", key)
        [made] = await births.create(tx, [draft], ends_after=timedelta(days=1))
    if isinstance(made, errors.TaskDuplicate):
        raise made
    return {"tasks": {key: str(made.task.id)}, "hit": int(made.idempotent_hit)}


async def cancel(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Cancel a task that was acknowledged."""
    told = await app.tasks.cancel(arguments["task"])
    return {"cancelled": [str(each) for each in told]}


async def command(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Send a command."""
    sent = await app.commands.send("Voyage.Request", {}, idempotency_key=key)
    return {"command": str(sent.id), "hit": int(sent.idempotent_hit)}


async def turn(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Ask an agent for a turn."""
    agent = arguments["agent"]
    await app.agents.create(agent, profile="sailor")
    handle = await app.agents.send(agent, key, turn=UUID(arguments["turn"]))
    return {"turn": str(handle.id)}


async def batch(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Fork a batch from outside."""
    words = [
        f"{n}{SLOW}{arguments['slow']}" if n == 0 and "slow" in arguments else str(n) for n in range(arguments["count"])
    ]
    tasks = [{"target_strategy": "new", "target_ref": "oar", "instruction": word} for word in words]
    handle = await app.batches.fork(tasks, id=UUID(arguments["batch"]), deadline_seconds=600)
    return {"batch": str(handle.id)}


async def wreck(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Fork a batch of which one child fails: with fail_fast that ends all of it."""
    words = [BROKEN if n == arguments["breaks"] else str(n) for n in range(arguments["count"])]
    tasks = [{"target_strategy": "new", "target_ref": "oar", "instruction": word} for word in words]
    handle = await app.batches.fork(
        tasks, id=UUID(arguments["batch"]), fail_fast=arguments["fail_fast"], deadline_seconds=600
    )
    return {"batch": str(handle.id)}


async def revoke(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Fork a batch and cancel it a moment later, with its children; perhaps too late."""
    told = await batch(app, key, arguments)
    await asyncio.sleep(arguments["after"])
    return {**told, "stopped": await app.batches.cancel(UUID(told["batch"]))}


async def recall(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Send a command and cancel it a moment later, with all that it has started; perhaps too late."""
    told = await command(app, key, arguments)
    await asyncio.sleep(arguments["after"])
    return {**told, "stopped": await app.commands.cancel(told["command"])}


async def window(app: Ferryman, key: str, arguments: Arguments) -> Told:
    """Plan the ingestion of one window."""
    since = DAWN + timedelta(minutes=arguments["nth"] * terms.RECORDS_OF_A_WINDOW)
    until = since + timedelta(minutes=terms.RECORDS_OF_A_WINDOW)
    planned = await app.ingest.plan(terms.SOURCE, since=since, until=until)
    return {"plan": str(planned.id), "nth": arguments["nth"]}


ACTS: dict[str, Callable[[Ferryman, str, Arguments], Awaitable[Told]]] = {
    "jobs": jobs,
    "one": one,
    "bare": bare,
    "within": within,
    "owed": owed,
    "cancel": cancel,
    "command": command,
    "turn": turn,
    "batch": batch,
    "wreck": wreck,
    "revoke": revoke,
    "recall": recall,
    "window": window,
}


# How often each kind of act is drawn; sets of plain tasks are as many times that as the load says.
SHARES = {
    "jobs": 40,
    "one": 12,
    "bare": 8,
    "within": 8,
    "owed": 8,
    "cancel": 8,
    "voyage": 6,
    "command": 4,
    "turn": 4,
    "batch": 5,
    "wreck": 2,
    "revoke": 2,
    "recall": 1,
    "window": 16,  # of one producer alone, who asks for all: a third of them come to anything
    "lag": 6,
}
# Kinds that are one task by its name.
NAMED = ("voyage", "lag")
# How long a task of a set takes at most. Starts per task grow with the time that tasks are in hand (docs/reliability.md).
SHORT_SECONDS = 0.06
# How many leases the first claim of a task that lags takes.
LAG_OF_LEASE = 1.3
# So many batches have a child of which the first claim takes as long: nobody could tell else whether turns are renewed.
SLOW_BATCHES = 0.5


def kind(act: str, arguments: Arguments) -> str:
    """Say which kind of act one was."""
    return arguments["name"] if arguments.get("name") in NAMED else act


def first(done: set[str], recent: list[str]) -> str | None:
    """Name a kind of which nothing has been done yet: also the shortest run is to have something of each."""
    wanted = next((kind for kind in SHARES if kind not in done), None)
    return "one" if wanted == "cancel" and not recent else wanted  # there must be something to cancel


def draw(  # noqa: PLR0911, C901 - one return for each act
    dice: random.Random, chosen: str | None = None, *, recent: list[str], windows: int, load: float, lease: float
) -> tuple[str, Arguments]:
    """Choose the next act, unless its kind is given, and its arguments."""
    if chosen is None:
        shares = [share * (load if kind == "jobs" else 1) for kind, share in SHARES.items()]
        [chosen] = dice.choices(list(SHARES), shares)
    match chosen:
        case "jobs":
            return "jobs", {
                "name": "job",
                "count": dice.randint(4, 30),
                "more": {"hold": round(dice.random() * SHORT_SECONDS, 3)},
            }
        case "one":
            name = dice.choice(("job", "plain", "shaky"))
            hold = {} if name == "shaky" else {"hold": round(dice.uniform(0.1, 1.0), 2)}
            return "one", {"name": name, "more": hold}
        case "bare":
            return "bare", {"name": dice.choice(("job", "plain")), "more": {"hold": round(dice.random() * 0.1, 3)}}
        case "voyage" | "lag":
            return "one", {"name": chosen, "more": {"hold": lease * LAG_OF_LEASE} if chosen == "lag" else {}}
        case "cancel" if recent:
            return "cancel", {"task": dice.choice(recent)}
        case "turn":
            return "turn", {
                "agent": f"sailor-{dice.randrange(SAILORS)}",
                "turn": str(UUID(int=dice.getrandbits(128), version=4)),
            }
        case "batch" | "wreck" | "revoke":
            return chosen, {
                "count": OARS,
                "batch": str(UUID(int=dice.getrandbits(128), version=4)),
                **_fate(dice, chosen, lease),
            }
        case "recall":
            return "recall", {"after": round(dice.uniform(0.0, 0.5), 3)}
        case "window":
            return "window", {"nth": windows}
        case "within" | "owed" | "command":
            return chosen, {}
        case _:
            return "one", {"name": "job", "more": {"hold": 0.3}}


def _fate(dice: random.Random, act: str, lease: float) -> Arguments:
    """Say which child of a batch fails and what that means, when it is cancelled, or how long its first child takes."""
    match act:
        case "batch" if dice.random() < SLOW_BATCHES:
            return {"slow": lease * LAG_OF_LEASE}
        case "wreck":
            return {"breaks": dice.randrange(OARS), "fail_fast": dice.random() < 0.7}
        case "revoke":
            return {"after": round(dice.uniform(0.0, 0.4), 3)}
        case _:
            return {}
