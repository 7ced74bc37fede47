"""Starting ships, watching what they write, and signalling them."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.crash import dock
from tests.forge import Forged
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
LEASE_SECONDS = 2.0
_LOOK_SECONDS = 0.01

Line = dict[str, Any]
Value = TypeVar("Value")

# A short lease, and looks often enough that a test need not wait for them.
TERMS = {
    "FERRYMAN_WORKER__LEASE": "2s",
    "FERRYMAN_WORKER__POLL": "0.1s",
    "FERRYMAN_WORKER__GRACE": "5s",
    "FERRYMAN_WORKER__LEASE_SWEEP_SECONDS": "0.2",
    "FERRYMAN_WORKER__CONCURRENCY": "8",
    "FERRYMAN_TASKS__MAX_RETRIES": "20",
}

# The doorbells that TEST_DOORBELL can ask for, with the settings of each. The last three spoil what is heard of
# PostgreSQL's, and are put around it in the ship itself (see ship.py).
BELLS: dict[str, dict[str, str]] = {
    "pg": {},
    "nats": {"FERRYMAN_DOORBELL": "nats"},
    "none": {"FERRYMAN_DOORBELL": "none"},
    "lossy": {},
    "doubled": {},
    "late": {},
}

# Where a watchdog is killed: with what it found in hand, and with all done and nothing committed.
WATCHDOG_POINTS = {"watchdog.found": "watchdog.found=kill@1", "watchdog.acted": "watchdog.acted=kill@1"}

# Where relays are killed, at which hit, in an order in which each still has something to do.
RELAY_POINTS = {"relay.spread": 1, "webhook.called": 3, "relay.published": 1, "relay.read": 1}


class Ship:
    """One process (or one mother and her children), and the file it writes."""

    def __init__(
        self,
        folder: Path,
        name: str,
        url: str,
        *,
        role: str = "worker",
        lives: Sequence[str] = (),
        bell: Mapping[str, str] = BELLS["pg"],
        **more: Any,
    ) -> None:
        self.history_file = folder / f"{name}.history"
        self.faults_file = folder / f"{name}.faults"
        self.output_file = folder / f"{name}.output"
        self.history_file.touch()
        self.faults_file.touch()
        self._environment = {"FERRYMAN_DATABASE_URL": url, **TERMS, **bell}
        self._plan = {
            "role": role,
            "lives": list(lives),
            "history": str(self.history_file),
            "faults_log": str(self.faults_file),
            **more,
        }
        self._process: Forged | None = None
        self._lines: list[Line] = []  # of its history, as far as it was read
        self._read_to = 0

    def start(self, **environment: str) -> "Ship":
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FERRYMAN_")}
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with self.output_file.open("ab") as output:
            self._process = dock.launch(
                self._plan,
                env={**inherited, "PYTHONPATH": path, **self._environment, **environment},
                cwd=self.history_file.parent,
                output=output.fileno(),
            )
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def lines(self, *whats: str) -> list[Line]:
        with self.history_file.open("rb") as file:
            file.seek(self._read_to)
            # What comes after the last end of a line is being written.
            whole, ended, _ = file.read().rpartition(b"\n")
        self._lines += [json.loads(line) for line in whole.splitlines()]
        self._read_to += len(whole) + len(ended)
        return [line for line in self._lines if not whats or line["what"] in whats]

    def strikes(self, point: str) -> int:
        """Count the faults that were written down before they struck."""
        return sum(line.startswith(f"{point} ") for line in self.faults_file.read_text(encoding="utf-8").splitlines())

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        return self.output_file.read_text(encoding="utf-8", errors="replace")

    async def seen(self, what: str, *, count: int = 1, **fields: Any) -> Line:
        """Wait until the history tells this often enough; return the last of those lines."""

        def found() -> Line | None:
            running = self.alive()
            told = [line for line in self.lines(what) if all(line.get(key) == value for key, value in fields.items())]
            if len(told) < count and not running:
                raise AssertionError(f"the process ended before {count} x {what} {fields}\n{self._told()}")
            return told[count - 1] if len(told) >= count else None

        return await until(found, f"{count} x {what} {fields}", also=self._told)

    async def ended(self) -> int:
        """Wait until the process is gone."""
        process = self._process
        assert process is not None
        await until(lambda: process.poll() is not None, "the end of the process", also=self._told)
        return process.wait()

    def _told(self) -> str:
        return f"{self.history_file.read_text(encoding='utf-8')[-3000:]}\n{self.output()[-3000:]}"

    def kill(self) -> None:
        """End whatever is left of it: the mother and her children are one group."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # all of them are gone already
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def keep_house(keeper: Ship) -> None:
    """Let a watchdog do what a new database needs once, so that the next one finds nothing before it finds a lease."""
    keeper.start(FERRYMAN_FAULTS="watchdog.acted=delay:0", FERRYMAN_FAULTS_LOG=str(keeper.faults_file))
    await until(lambda: keeper.strikes("watchdog.acted"), "the first look of a watchdog", also=keeper.output)
    keeper.signal(signal.SIGTERM)
    await keeper.seen("stopped")


async def until(look: Callable[[], Value | None], what: str, *, also: Callable[[], str] = str) -> Value:
    """Look until there is something to see; a test that waits in vain says for what."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE_SECONDS:g} s in vain for {what}\n{also()}")
        await asyncio.sleep(_LOOK_SECONDS)
