"""The program that is killed: a worker, a watchdog or a producer with several lives.

The mother loads everything once and forks a child for each life, so that a life begins in milliseconds; each life has its own
plan of faults. Every process writes what it does to one file opened for appending, line by line, before and after it does
it; the judge reads that file and not what the product says of itself.
"""

import asyncio
import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from ferryman import Context, Ferryman, Turn
from ferryman.app import wiring
from ferryman.kernel import errors, faults, telemetry, watchdog
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.kernel.loop import Pump
from ferryman.kernel.pool import LINE_SETTINGS
from ferryman.tasks.model import Ended
from ferryman.testing import Doubled, Late, Lossy
from tests.crash import orders

GATE_SECONDS = 0.01
# Writes whose refusal is a fence, by domain and move.
FENCES, MOVES = ("task", "turn", "relay", "webhook"), ("settle", "renew", "step")


class History:
    """Lines that are in the file once written, whoever is killed next."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, what: str, **more: object) -> None:
        line = json.dumps({"what": what, "at": time.monotonic(), "pid": os.getpid(), **more})
        os.write(self._file, f"{line}\n".encode())

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]


class Debts:
    """An owner of callbacks: counts how often each end was told, in the transaction that ends the task."""

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        await tx.fetch("select from public.owed where ref = any($1) order by ref for update", list(refs))

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> None:
        refs = [each.callback_ref for each in ended]
        await tx.fetch("update public.owed set ends = ends + 1 where ref = any($1) returning ref", refs)


def sail(app: Ferryman, history: History) -> None:  # noqa: C901 - the crew, one function each
    """Let agents sail too: steps, tools that hold, and another agent's turn, each with a word that no other run would say."""

    @app.tool(backoff=0.05)
    async def knot(number: int, hold: float = 0.0, gate: str | None = None) -> str:
        await asyncio.sleep(hold)
        while gate is not None and not Path(gate).exists():  # noqa: ASYNC110 - opened by another process
            await asyncio.sleep(GATE_SECONDS)
        return f"knot {number}"

    @app.agent
    async def mate(turn: Turn) -> str:
        history.write("mate", turn=str(turn.id))
        return f"aye {turn.instruction}"

    @app.agent
    async def oar(turn: Turn) -> dict[str, str]:
        history.write("stroke", turn=str(turn.id))
        number, _, gate = turn.instruction.partition(" ")
        while gate and not Path(gate).exists():  # noqa: ASYNC110 - opened by another process
            await asyncio.sleep(GATE_SECONDS)
        return {"summary": f"stroke {number}"}

    @app.agent
    async def admiral(turn: Turn) -> Any:
        count, gate = turn.instruction["children"], turn.instruction["gate"]
        tasks = [{"target_strategy": "new", "target_ref": "oar", "instruction": f"{n} {gate}"} for n in range(count)]
        return await turn.fork_join(tasks, deadline_seconds=120)

    @app.agent
    async def stone(turn: Turn) -> str:
        if isinstance(turn.instruction, dict):
            history.write("blocks")
            while not Path(turn.instruction["until"]).exists():
                time.sleep(GATE_SECONDS)  # the whole loop waits
            history.write("unblocks")
        return str(turn.instruction)

    @app.agent
    async def sailor(turn: Turn) -> list[str]:
        told = {"turn": str(turn.id)}
        given = turn.instruction if isinstance(turn.instruction, dict) else {}
        history.write("start", **told)

        async def ran(name: str) -> str:
            word = f"{name} {os.getpid()} {time.monotonic()}"
            history.write("ran", **told, step=name, word=word)
            while given.get("gate") and not Path(given["gate"]).exists():  # noqa: ASYNC110 - opened by another process
                await asyncio.sleep(GATE_SECONDS)
            await asyncio.sleep(given.get("hold", 0.0))
            return word

        words = [await turn.step("look", ran, "look")]
        if not given.get("alone"):
            words += await asyncio.gather(turn.call_tool("knot", number=1), turn.call_tool("knot", number=2))
        words.append(await turn.step("steer", ran, "steer"))
        words.append(await turn.delegate(mate, "captain"))
        history.write("end", **told, words=words)
        return words


def bell() -> Doorbell | None:
    """Give the doorbell that spoils what it hears, if one is asked for; the others are settings."""
    heard = PostgresDoorbell(os.environ["FERRYMAN_DATABASE_URL"])
    match os.environ.get("TEST_DOORBELL"):
        case "lossy":
            return Lossy(heard, seed=7)
        case "doubled":
            return Doubled(heard)
        case "late":
            return Late(heard)
        case _:
            return None


def build(history: History, *, agents: bool = False) -> Ferryman:
    app = Ferryman(doorbell=bell())
    if agents:
        sail(app, history)
    app.on_end("debt", Debts())

    @app.task(backoff=0.05)
    async def job(ctx: Context, key: str = "", hold: float = 0.0, gate: str | None = None) -> str:
        told = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told)
        try:
            await asyncio.sleep(hold)
            while gate is not None and not Path(gate).exists():  # noqa: ASYNC110 - opened by another process
                await asyncio.sleep(GATE_SECONDS)
        except asyncio.CancelledError:
            history.write("abort", **told)
            raise
        history.write("end", **told)
        return key

    # With keys: its births look before they are stored.
    @app.task(backoff=0.05, limit_key="{key}", singleton="{key}")
    async def leg(ctx: Context, key: str) -> str:
        told = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told)
        history.write("end", **told)
        return key

    @app.task(backoff=0.05)
    async def hop(ctx: Context, key: str) -> str:
        told = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told)
        history.write("end", **told)
        return key

    @app.task(backoff=0.05)
    async def voyage(ctx: Context, key: str = "", plain: bool = False) -> str:
        """Steps, a sleep and children: each step returns a word that no other run of it would."""
        told = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told)

        async def ran(name: str) -> str:
            word = f"{name} {ctx.task.epoch} {os.getpid()}"
            history.write("ran", task=told["task"], epoch=told["epoch"], step=name, word=word)
            return word

        words = [await ctx.step(name, ran, name) for name in ("load", "cast-off")]
        await ctx.sleep(0.05)
        words.append(await ctx.step("cross", ran, "cross"))
        part = hop if plain else leg
        await ctx.join([ctx.child(part, {"key": f"{key}-{n}"}) for n in range(3)])
        words.append(await ctx.step("unload", ran, "unload"))
        history.write("end", **told, words=words)
        return key

    orders.direct(app, history.write)
    return app


async def report_fences(history: History) -> None:
    """Write down each time the process counted a stale write of its own."""
    seen = Counter[str]()
    while True:
        counts = Counter[str]()
        for (domain, move), child in tuple(telemetry.FENCED.children.items()):
            if domain in FENCES and move in MOVES:
                counts[move] += int(
                    child._value.get()
                )  # to ask the registry for one sample takes some ms of the worker's time
        for move, count in counts.items():
            if count > seen[move]:
                history.write("fenced", move=move, count=count)
        seen = counts
        await asyncio.sleep(0.02)


async def work(history: History, *, agents: bool, alone: bool = True) -> None:
    """Be a worker; of a crowd nobody counts fences: to look as often as one does would take the whole machine."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    fences = loop.create_task(report_fences(history)) if alone else None
    async with build(history, agents=agents) as app:
        history.write("working", doorbell=type(app.doorbell).__name__)
        await app.work(stop=stop)
    history.write("stopped")
    if fences is not None:
        fences.cancel()


async def watch(history: History, named: Sequence[str]) -> None:
    """Be a watchdog with some of its rules alone: where it is killed, it is one of these that found something."""
    async with build(history) as app:
        rules = [each for each in wiring.rules(app._open) if each.name in named]
        line = app._open.line(watchdog.PATIENCE, **watchdog.SETTINGS)
        dog = watchdog.Watchdog(line, rules, lease=app.settings.worker.lease)
        history.write("working", rules=[each.name for each in rules])
        await dog.run()


async def produce(
    history: History, *, count: int, prefix: str, until: str | None = None, commands: bool = False, bare: bool = False
) -> None:
    """Create tasks, or send commands, by key, each again until it was acknowledged; a life goes on where the last one died.

    Who is to go on until a file is there creates at least so many. A bare create has no key: who repeats it makes another task.
    """
    acked = {line["key"] for line in history.read() if line["what"] == "ok"}
    async with build(history) as app:
        history.write("working")
        for n in itertools.count():
            if n >= count and (until is None or Path(until).exists()):
                break
            key = f"{prefix}{n}"
            while key not in acked:
                history.write("invoke", key=key)
                try:
                    if commands:
                        handle: Any = await app.commands.send("Voyage.Request", {}, idempotency_key=key)
                    else:
                        handle = await app.tasks.create("job", {"key": key}, idempotency_key=None if bare else key)
                except errors.FerrymanError as error:
                    history.write("refused", key=key, code=error.code, retryable=error.retryable)
                else:
                    acked.add(key)
                    history.write("ok", key=key, task=str(handle.id), hit=handle.idempotent_hit)
    history.write("stopped")


def strike(history: History, point: str, domain: str, due: str | None) -> None:
    """Kill this process if it is the pump of one domain that passes a point which every pump passes, busy or not.

    Where a query says what is due, it is killed only when there is some.
    """
    frame = sys._getframe()
    while frame.f_back is not None and not isinstance(frame.f_locals.get("self"), Pump):
        frame = frame.f_back
    pump = frame.f_locals.get("self")
    if isinstance(pump, Pump) and pump.domain == domain and (due is None or there_is(due)):
        history.write("struck", point=point, domain=domain)
        os.kill(os.getpid(), signal.SIGKILL)


def there_is(query: str) -> bool:
    """Ask in a breath: the process goes no further meanwhile."""
    with psycopg.connect(os.environ["FERRYMAN_DATABASE_URL"]) as connection:
        return connection.execute(query).fetchone() is not None


def live(plan: dict[str, Any], life: str | None) -> None:
    history = History(plan["history"])
    if life and plan.get("of"):
        faults.arm({life: partial(strike, history, life, plan["of"], plan.get("due"))}, log=plan["faults_log"])
    elif life is not None:
        faults.arm(life, log=plan["faults_log"])
    if plan.get("patient"):  # a transaction that is open when it is frozen is open when it is thawed
        LINE_SETTINGS["idle_in_transaction_session_timeout"] = "60s"
    history.write("born", faults=life)
    if plan["role"] == "worker":
        asyncio.run(work(history, agents=plan.get("agents", False), alone=not plan.get("crowd")))
    elif plan["role"] == "watchdog":
        asyncio.run(watch(history, plan["rules"]))
    else:
        commands = plan["role"] == "sender"
        asyncio.run(
            produce(
                history,
                count=plan["count"],
                prefix=plan.get("prefix", "k"),
                until=plan.get("until"),
                commands=commands,
                bare=plan.get("bare", False),
            )
        )


def main(plan: dict[str, Any]) -> None:
    if not plan["lives"]:
        live(plan, None)  # one life, its faults from the environment
        return
    history = History(plan["history"])
    for life in plan["lives"]:
        child = os.fork()
        if child == 0:
            live(plan, life)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        history.write("died", child=child, signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, status=status)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
