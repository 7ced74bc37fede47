"""The processes of a run: each has a name and several lives, and every life its own files.

All are forked from the one that reads this, which has loaded everything: a life begins in milliseconds. The fleet never
has a thread, an event loop or a connection of its own open while it forks, but for those that it holds as a fault.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos import plan, roles, terms
from chaos.history import History, read

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
REBIRTH_SECONDS = 0.15


@dataclass
class Slot:
    """One name, and the process that bears it now."""

    name: str
    role: str
    more: dict[str, Any] = field(default_factory=dict)
    nth: int = 0
    pid: int = 0
    frozen_until: float | None = None
    working: int = 0  # which of its lives was seen to have begun to work
    born_at: float = 0.0
    doomed: bool = False  # whether a SIGKILL is asked for: by us, or by its own faults some time

    @property
    def alive(self) -> bool:
        """Whether a process bears the name."""
        return self.pid != 0


class Fleet:
    """All processes."""

    def __init__(
        self,
        slots: Sequence[Slot],
        told: History,
        *,
        url: str,
        more: Mapping[str, str],
        seed: int,
        folder: Path,
        lease: float,
    ) -> None:
        """Take charge; nobody is born yet."""
        self.slots = list(slots)
        self._told = told
        self._url = url
        self._more = dict(more)
        self._lease = lease
        self._seed = seed
        self._folder = folder
        self.calm = False
        self.spared: frozenset[str] = frozenset()
        self.unexpected: list[str] = []

    def prey(self, *wanted: str) -> list[Slot]:
        """Give those of some roles that may be struck."""
        return [slot for slot in self.of(*wanted) if slot.name not in self.spared]

    def of(self, *wanted: str) -> list[Slot]:
        """Give those of some roles that live and are not frozen."""
        return [slot for slot in self.slots if slot.role in wanted and slot.alive and slot.frozen_until is None]

    def tend(self, now: float) -> None:
        """Thaw, bury, and let be born what should live."""
        for slot in self.slots:
            if slot.frozen_until is not None and slot.frozen_until <= now:
                self.thaw(slot)
            if slot.alive:
                self._bury(slot)
            elif now >= slot.born_at + REBIRTH_SECONDS:
                self.launch(slot)

    def launch(self, slot: Slot) -> None:
        """Begin the next life of a name."""
        slot.nth += 1
        slot.born_at = time.monotonic()
        life = plan.life(self._seed, slot.name, slot.nth, role=slot.role, calm=self.calm, lease=self._lease)
        slot.doomed = bool(life.faults or life.forgets)
        child = os.fork()
        if child == 0:
            self._live(slot, life)
        slot.pid = child

    def _live(self, slot: Slot, life: plan.Life) -> None:
        """Be the child: never return."""
        code = 1
        try:
            roles.remember_stop()
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            stem = f"{slot.name}.{slot.nth:04}"
            output = os.open(self._folder / f"{stem}.output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(output, 1)
            os.dup2(output, 2)
            for name in [each for each in os.environ if each.startswith("FERRYMAN_")]:
                del os.environ[name]
            os.environ.update(terms.leased(self._lease) | self._more)
            told = History(self._folder / f"{stem}.history")
            roles.live(
                slot.role, life, told,
                url=self._url, seed=self._seed, folder=self._folder, slot=slot.name, **slot.more,
            )  # fmt: skip
            code = 0
        except BaseException:  # noqa: BLE001 - said, and told by the exit code
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _bury(self, slot: Slot, *, options: int = os.WNOHANG) -> None:
        pid, status = os.waitpid(slot.pid, options)
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        self._told.write("died", who=slot.name, child=pid, code=code)
        # A death by a fault of the process itself is a SIGKILL too; one of another's, where memory is out, was not asked for.
        if code not in (-signal.SIGKILL, 0) or (code != 0 and not slot.doomed):
            self.unexpected.append(f"{slot.name}.{slot.nth:04} ended with {code}")
        elif code == 0 and not self.calm:
            self.unexpected.append(f"{slot.name}.{slot.nth:04} stopped by itself")
        slot.pid, slot.frozen_until, slot.born_at = 0, None, time.monotonic()

    def kill(self, slot: Slot) -> None:
        """SIGKILL."""
        slot.doomed = True
        os.kill(slot.pid, signal.SIGKILL)

    def finish(self, slot: Slot) -> None:
        """SIGKILL, and wait for it: on a busy machine the dying would be taken for those who are born after them."""
        self.kill(slot)
        self._bury(slot, options=0)

    def freeze(self, slot: Slot, until: float) -> None:
        """SIGSTOP, for a while."""
        os.kill(slot.pid, signal.SIGSTOP)
        slot.frozen_until = until

    def thaw(self, slot: Slot) -> None:
        """SIGCONT."""
        slot.frozen_until = None
        if slot.alive:
            os.kill(slot.pid, signal.SIGCONT)
            self._told.write("thawed", who=slot.name, child=slot.pid)

    def all_working(self) -> bool:
        """Say whether everybody has come so far as to do something."""
        return all(slot.alive and self.works(slot) for slot in self.slots)

    def watched(self) -> bool:
        """Say whether somebody lives, is not frozen and has begun to work, who watches and fires."""
        return any(self.works(slot) for slot in self.of("worker", "dog"))

    def works(self, slot: Slot) -> bool:
        """Say whether the process that bears a name now has come so far as to do something."""
        if slot.working != slot.nth and self._has_begun(slot):
            slot.working = slot.nth
        return slot.working == slot.nth

    def _has_begun(self, slot: Slot) -> bool:
        file = self._folder / f"{slot.name}.{slot.nth:04}.history"
        return file.exists() and any(line["what"] == "working" for line in read(file))

    def errand(self, role: str) -> Iterator[str]:
        """Let a process of its own do one thing, and say what went wrong with it."""
        slot, calm = Slot(role, role), self.calm
        self.calm = True
        self.launch(slot)
        self.calm = calm
        _, status = os.waitpid(slot.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            yield f"the {role} could not do its errand"

    def dismiss(self, *wanted: str, seconds: float) -> Iterator[str]:
        """Let processes of some roles end their own way; name those that did not."""
        leaving = [slot for slot in self.slots if slot.role in wanted and slot.alive]
        for slot in leaving:
            if slot.frozen_until is not None:
                self.thaw(slot)
            os.kill(slot.pid, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while any(slot.alive for slot in leaving) and time.monotonic() < deadline:
            for slot in leaving:
                if slot.alive:
                    self._bury(slot)
            time.sleep(0.01)
        self.slots = [slot for slot in self.slots if slot not in leaving]
        for slot in leaving:
            if slot.alive:
                yield f"{slot.name}.{slot.nth:04} did not stop within {seconds:g} s"
                self.kill(slot)
                os.waitpid(slot.pid, 0)

    def end(self) -> None:
        """Kill whatever is left."""
        for slot in self.slots:
            if slot.alive:
                self.kill(slot)
                os.waitpid(slot.pid, 0)
                slot.pid = 0
