"""One peer on the server: its databases, its client runs and its crew of workers."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench import venvs
from bench.protocol import ANSWER, READY, Card, Marks, Order, Sizes
from bench.server import Server, processor_seconds, run_time
from bench.store import Store

READY_WITHIN = 30.0
STOP_WITHIN = 8.0
REST_WITHIN = 20.0


class Failed(Exception):
    """A peer did not do what was asked; the message carries what it said."""


class Crew:
    """Worker processes of one peer."""

    def __init__(self, processes: list[subprocess.Popen[bytes]]) -> None:
        self.processes = processes

    def members(self) -> Iterator[psutil.Process]:
        for process in self.processes:
            root = psutil.Process(process.pid)
            yield root
            yield from root.children(recursive=True)

    def cpu(self) -> float:
        return sum(processor_seconds(psutil.Process(process.pid)) for process in self.processes)

    def run_time(self) -> float:
        """CPU seconds of its living threads."""
        return run_time(self.members())

    def memory(self, field: str) -> float:
        """Megabytes resident: `VmRSS` now, `VmHWM` at most so far."""
        lines = (line for m in self.members() for line in Path(f"/proc/{m.pid}/status").read_text().splitlines())
        return sum(int(line.split()[1]) for line in lines if line.startswith(field + ":")) / 1024

    def stop(self) -> None:
        """Let nobody do anything until `go_on`; who stands here has opened everything and goes on within microseconds."""
        for member in self.members():
            member.suspend()

    def go_on(self) -> None:
        for member in self.members():
            member.resume()

    def ended(self) -> bool:
        return any(process.poll() is not None for process in self.processes)

    def halt(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Stage:
    """A peer, ready to be measured. `scale` shrinks the numbers of jobs for a quick look."""

    queues = 1  # over which jobs are spread, and which workers serve

    def __init__(self, peer: str, server: Server, scratch: Path, *, scale: float, card: Card, store: Store) -> None:
        self.peer = peer
        self.server = server
        self.store = store
        self.scratch = scratch
        self.scale = scale
        self.card = card
        self.python = venvs.interpreter(peer)
        self.template = f"{peer}_template"
        self.database = f"{peer}_bench"
        self.marks = Marks(scratch / "marks")
        self.store.create(self.template)
        self.call("migrate", database=self.template)
        self.store.disconnect(self.template)
        self.store.settle(self.template)

    def count(self, size: str) -> int:
        return max(1, int(getattr(self.card.sizes, size) * self.scale))

    def fresh(self, *, template: str | None = None) -> None:
        """Begin a measurement: an empty database and a clean sheet of marks."""
        self.clear()
        self.store.create(self.database, template=template or self.template)

    def clear(self) -> None:
        """Take a clean sheet of marks."""
        sheet = self.scratch / "marks"
        sheet.unlink()
        self.marks = Marks(sheet)

    def environment(self, database: str, worker: int) -> dict[str, str]:
        # What is installed has been compiled; with this set, what stands in the checkout would be compiled at each start.
        around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return around | {
            "BENCH_URL": self.store.url(database),
            "BENCH_MARKS": str(self.scratch / "marks"),
            "BENCH_WORKER": str(worker),
            "BENCH_QUEUES": str(self.queues),
            "PYTHONPATH": str(venvs.ROOT / "src"),
        }

    def command(self, role: str, *words: str) -> list[str]:
        return [str(self.python), "-m", f"bench.peers.{self.peer}", role, *words]

    def popen(self, role: str, *words: str, worker: int = 0, log: Any = subprocess.PIPE) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(role, *words),
            env=self.environment(self.database, worker),
            cwd=venvs.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    def call(self, role: str, *words: str, database: str | None = None, timeout: float = 180.0) -> str:
        done = subprocess.run(
            self.command(role, *words),
            env=self.environment(database or self.database, 0),
            cwd=venvs.ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode:
            raise Failed(f"{self.peer} {role}: {done.stderr[-2000:]}")
        return done.stdout

    def ask(self, role: str, *words: str, timeout: float = 180.0) -> dict[str, Any]:
        return answered(self.peer, self.call(role, *words, timeout=timeout))

    def client(self, op: str, count: int, **numbers: float) -> dict[str, Any]:
        """Create jobs in a process of their own, and return what it measured."""
        return self.ask("client", "--order", order(op, count, **numbers))

    @contextmanager
    def beside(self, op: str, count: int, **numbers: float) -> Iterator[subprocess.Popen[bytes]]:
        """Run a client while the caller watches."""
        process = self.popen("client", "--order", order(op, count, **numbers))
        try:
            yield process
            said, _ = process.communicate(timeout=60)
            answered(self.peer, said.decode())
        finally:
            process.kill()
            process.wait()

    @contextmanager
    def crew(self, size: int, *, wait: bool = True) -> Iterator[Crew]:
        """Run `size` workers; with `wait`, each has opened its connections and stands at the gate."""
        log = self.scratch / f"{self.peer}.log"
        with log.open("wb") as file:
            crew = Crew([self.popen("worker", worker=number, log=file) for number in range(size)])
        try:
            if wait:
                self.await_gate(crew, log)
            yield crew
            if crew.ended():
                raise Failed(f"a worker of {self.peer} ended early: {log.read_text()[-2000:]}")
        finally:
            crew.halt()

    @contextmanager
    def warmed(self, size: int) -> Iterator[tuple[Crew, int]]:
        """Run `size` workers, each of which has done jobs already; lend them, and say how many jobs that took."""
        self.marks.go()
        with self.crew(size, wait=False) as crew:
            yield crew, int(self.client("warm", 0, workers=size)["made"])

    @contextmanager
    def stopped(self, crew: Crew) -> Iterator[None]:
        """Stop workers that are idle while the database is filled; they go on, all at once, when the block ends.

        A worker is not stopped in the middle of a transaction, which would hold its locks and the horizon.
        """
        until = time.monotonic() + REST_WITHIN
        try:
            while True:
                crew.stop()
                time.sleep(0.01)
                if self.store.at_rest(self.database):
                    break
                crew.go_on()
                if time.monotonic() > until:
                    raise Failed(f"{self.peer}: no moment without an open transaction in {REST_WITHIN:g} s")
                time.sleep(random.uniform(0.01, 0.05))
            yield
        finally:
            crew.go_on()

    def await_gate(self, crew: Crew, log: Path) -> None:
        until = time.monotonic() + READY_WITHIN
        while not all(self.marks.times[READY + number] for number in range(len(crew.processes))):
            if crew.ended() or time.monotonic() > until:
                raise Failed(f"a worker of {self.peer} never got ready: {log.read_text()[-2000:]}")
            time.sleep(0.01)
        time.sleep(0.3)


def read_card(peer: str) -> Card:
    """Ask a peer what it can do; its library is not needed for that."""
    answer = answered(peer, venvs.said([venvs.interpreter(peer), "-m", f"bench.peers.{peer}", "card"]))
    return Card(**answer | {"sizes": Sizes(**answer["sizes"])})


def answered(peer: str, said: str) -> dict[str, Any]:
    for line in said.splitlines():
        if line.startswith(ANSWER):
            return dict(json.loads(line.removeprefix(ANSWER)))
    raise Failed(f"{peer} gave no answer: {said[-2000:]}")


def order(op: str, count: int, **numbers: float) -> str:
    return json.dumps(dataclasses.asdict(Order(op=op, count=count, **numbers)))  # type: ignore[arg-type]
