"""R3: whose death a run takes for one that was asked for."""

import os
import signal
from pathlib import Path

import pytest

from chaos.fleet import Fleet, Slot
from chaos.history import History

CHILD = 4711


def buried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, calm: bool, struck: bool, status: int) -> list[str]:
    """Bear a process, perhaps strike it, and hear what is said of its end."""
    monkeypatch.setattr(os, "fork", lambda: CHILD)
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    monkeypatch.setattr(os, "waitpid", lambda pid, options: (pid, status))
    slot = Slot("worker-0", "worker")
    told = History(tmp_path / "storm.history")
    fleet = Fleet([slot], told, url="", more={}, seed=7, folder=tmp_path, lease=2.0)
    fleet.calm = calm
    fleet.launch(slot)
    if struck:
        fleet.kill(slot)
    fleet._bury(slot)
    return fleet.unexpected


@pytest.mark.contract("R3")
@pytest.mark.parametrize(("calm", "struck", "status", "said"), [
    (True, True, signal.SIGKILL, []),
    (True, False, signal.SIGKILL, ["worker-0.0001 ended with -9"]),  # memory is out, for instance
    (False, False, signal.SIGKILL, []),  # by a fault inside of it
    (False, True, signal.SIGKILL, []),
    (True, True, signal.SIGSEGV, ["worker-0.0001 ended with -11"]),
    (True, False, 0, []),
    (False, False, 0, ["worker-0.0001 stopped by itself"]),
])  # fmt: skip
def test_who_is_killed_by_nobody_of_ours_has_died_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm: bool, struck: bool, status: int, said: list[str]
) -> None:
    assert buried(tmp_path, monkeypatch, calm=calm, struck=struck, status=status) == said
