"""What one process of a run does from its birth to its death: work, watch, produce, or read the log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

from chaos import acts, clock, crew, history, terms
from chaos.history import History
from chaos.plan import Life
from ferryman import Ferryman
from ferryman.app import wiring
from ferryman.kernel import errors, events, faults, invariants, telemetry

HELD = ("settle", "renew", "step")  # what only the holder of a claim writes
LOOK_SECONDS = 0.05
_stops: list[bool] = []


def live(role: str, life: Life, told: History, *, url: str, seed: int, folder: Path, slot: str, **more: Any) -> None:
    """Live one life; the caller is a fresh process."""
    clock.set_wrong(life.clock)
    if life.faults:
        faults.arm(life.faults, log=folder / f"{told.path.stem}.faults")
        _tell_of_faults(told)
    told.write("born", role=role, doorbell=life.doorbell, clock=life.clock, pool=life.pool)
    app = crew.build(url, told, doorbell=life.doorbell, seed=seed, pool=life.pool)
    match role:
        case "worker" | "dog":
            asyncio.run(work(app, told, queues=["nothing"] if role == "dog" else None))
        case "producer":
            asyncio.run(produce(app, told, seed=seed, folder=folder, slot=slot, forgets=life.forgets, **more))
        case "reader":
            asyncio.run(follow(app, told))
        case "founder":
            asyncio.run(begin_schedules(app))
        case "caller":
            asyncio.run(call(app, told, seed=seed, nth=next_window(folder)))
        case "herald":
            asyncio.run(end_schedules(app))
        case "auditor":
            asyncio.run(audit(app, told))
    told.write("stopped")


def remember_stop() -> None:
    """Keep in mind that we were told to stop before there was a loop to hear it."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: _stops.append(True))


def _told_to_stop() -> asyncio.Event:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    if _stops:
        stop.set()
    return stop


async def work(app: Ferryman, told: History, *, queues: list[str] | None) -> None:
    """Be a worker; one that serves a queue where nothing is only watches and fires."""
    stop = _told_to_stop()
    _tell_of_fences(told)
    await app.open(unless=stop)
    try:
        told.write("working")
        if not stop.is_set():
            await app.work(stop=stop, **({"queues": queues} if queues else {}))
    finally:
        await app.close()


def _tell_of_fences(told: History) -> None:
    """Write down each refusal of a stale write when it is counted: a count that is read now and then has no time."""
    counted = telemetry.fenced

    def tell(domain: str, move: Any, count: int = 1) -> None:
        if count and move in HELD:
            told.write("fenced", domain=domain, move=move, count=count)
        counted(domain, move, count)

    telemetry.fenced = tell


def _tell_of_faults(told: History) -> None:
    """Write down when each fault strikes inside of this process, and in which thread: the log of faults has no times.

    Deaths are not told: who dies is buried, and that has its time.
    """
    counted = telemetry.fault

    def tell(point: str, action: str) -> None:
        told.write("fault", point=point, action=action, thread=threading.get_native_id())
        counted(point, action)

    telemetry.fault = tell


class Past:
    """What earlier lives of a producer have done, and what they left open."""

    def __init__(self, folder: Path, slot: str) -> None:
        """Read their histories."""
        self.open: dict[str, tuple[str, acts.Arguments]] = {}
        self.kinds: set[str] = set()
        self.windows = 0
        for file in sorted(folder.glob(f"{slot}.*.history")):
            for line in history.read(file):
                if line["what"] == "invoke":
                    self.open[line["key"]] = line["act"], line["arguments"]
                    self.kinds.add(acts.kind(line["act"], line["arguments"]))
                    if line["act"] == "window":
                        self.windows = max(self.windows, line["arguments"]["nth"] + 1)
                elif line["what"] in ("ok", "error"):
                    self.open.pop(line["key"], None)


class Memory:
    """What a producer knows of its own acts: the answer of some dies with it, and its next life must ask again."""

    def __init__(self, told: History, forgets: float, seed: int) -> None:
        """Write down here what is known; `forgets` says how often one dies before that."""
        self.told = told
        self._forgets = forgets
        self._dice = random.Random(f"{seed} {told.path.stem} forgets")

    def fail(self) -> None:
        """Die, now and then: the database has committed, and nobody knows."""
        if self._dice.random() < self._forgets:
            self.told.write("struck", kind="forget", who=self.told.path.stem)
            os.kill(os.getpid(), signal.SIGKILL)


async def produce(
    app: Ferryman,
    told: History,
    *,
    seed: int,
    folder: Path,
    slot: str,
    forgets: float,
    pace: float,
    load: float,
    lease: float,
) -> None:
    """Act, each act until it is acknowledged; what the life before left open comes first."""
    stop = _told_to_stop()
    past = Past(folder, slot)
    dice = random.Random(f"{seed} {told.path.stem}")
    memory = Memory(told, forgets, seed)
    await app.open(unless=stop)
    recent: list[str] = []
    told.write("working")
    try:
        for key, (act, arguments) in past.open.items():
            await act_until_done(app, memory, key, act, arguments, again=True)
        for number in range(1_000_000_000):
            chosen = acts.first(past.kinds, recent) if slot == "producer-0" else None
            if stop.is_set() and chosen is None:
                return
            act, arguments = acts.draw(dice, chosen, recent=recent, windows=past.windows, load=load, lease=lease)
            past.kinds.add(acts.kind(act, arguments))
            if act == "window":
                if slot != "producer-0":  # windows follow each other: one producer asks for them
                    continue
                past.windows += 1
            await _room(folder, stop)
            answer = await act_until_done(app, memory, f"{told.path.stem}:{number}", act, arguments)
            recent = (recent + list(answer.get("tasks", {}).values()))[-40:]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), dice.uniform(0, 2 * pace))
    finally:
        await app.close()


async def _room(folder: Path, stop: asyncio.Event) -> None:
    """Wait while too much stands in line."""
    while (folder / terms.CROWDED).exists() and not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_SECONDS)


async def act_until_done(
    app: Ferryman, memory: Memory, key: str, act: str, arguments: acts.Arguments, *, again: bool = False
) -> acts.Told:
    """Act, again and again while the answer is that the database is away; tell what came of it."""
    told = memory.told
    while True:
        told.write("invoke", key=key, act=act, arguments=arguments, again=again)
        try:
            answer = await acts.ACTS[act](app, key, arguments)
        except errors.FerrymanError as error:
            told.write("refused", key=key, act=act, code=error.code, retryable=error.retryable, said=str(error))
            if not error.retryable:
                told.write("error", key=key, act=act, code=error.code, said=str(error))
                return {}
            again = True
            await asyncio.sleep(LOOK_SECONDS)
        else:
            memory.fail()
            told.write("ok", acknowledged=True, key=key, act=act, again=again, **answer)
            return answer


async def follow(app: Ferryman, told: History) -> None:
    """Read the log by name, and keep what was read in the transaction that moves the place."""
    stop = _told_to_stop()
    await app.open(unless=stop)
    told.write("working")
    try:
        while not stop.is_set():
            try:
                found = await read_on(app, told)
            except errors.DatabaseUnavailable as error:
                told.write("refused", act="read", key="", code=error.code, retryable=True)
                found = 0
            if not found:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), LOOK_SECONDS)
    finally:
        await app.close()


async def read_on(app: Ferryman, told: History) -> int:
    """Read what has come to the log, and say how much it was."""
    async with app.database.transaction() as tx:
        found = await events.read(tx, "witness", limit=500)
        if found:
            await tx.fetch(
                "insert into public.witnessed (event) select * from unnest($1::bigint[])", [each.id for each in found]
            )
    if found:
        told.write("read", acknowledged=True, first=found[0].id, last=found[-1].id, count=len(found))
    return len(found)


async def begin_schedules(app: Ferryman) -> None:
    """Let a task be born every second, also for those seconds in which nobody could."""
    async with app:
        await app.schedules.create("tick", {"key": "tick"}, every=1, catch_up="all", max_retries=terms.RETRIES)


async def call(app: Ferryman, told: History, *, seed: int, nth: int) -> None:
    """Ask for the next window, a turn and some tasks: something of each for whoever is left alone."""
    dice, memory = random.Random(f"{seed} caller {os.getpid()}"), Memory(told, 0.0, seed)
    async with app:
        for kind in ("window", "turn", "jobs"):
            act, arguments = acts.draw(dice, kind, recent=[], windows=nth, load=1.0, lease=0.0)
            await act_until_done(app, memory, f"{told.path.stem}:{os.getpid()}:{kind}", act, arguments)


def next_window(folder: Path) -> int:
    """Say which window comes after those that were answered; who asks for it too is told that it is there."""
    files = [file for name in ("producer-0", "caller") for file in folder.glob(f"{name}.*.history")]
    lines = [line for file in files for line in history.read(file) if line["what"] == "ok" and line["act"] == "window"]
    return max((line["nth"] for line in lines), default=-1) + 1


async def end_schedules(app: Ferryman) -> None:
    """Let no further task be born of a schedule."""
    async with app:
        for schedule in await app.schedules.list():
            await app.schedules.delete(schedule.id, reason="the run is over")


async def audit(app: Ferryman, told: History) -> None:
    """Let the product's own invariants speak; the checker has its own."""
    async with app, app.database.session() as tx:
        checked = wiring.invariants()
        for found in await invariants.check(tx, checked):
            told.write("broken", name=found.name, says=found.says, rows=[dict(row) for row in found.rows[:3]])
        told.write("audited", count=len(checked))
