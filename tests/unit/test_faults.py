import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ferryman
from ferryman.kernel import errors, faults

SOURCE = Path(ferryman.__file__).parent


def run(program: str, *, plan: str, log: Path) -> subprocess.Popen[str]:
    environment = os.environ | {
        "FERRYMAN_FAULTS": plan,
        "FERRYMAN_FAULTS_LOG": str(log),
        "PYTHONPATH": str(SOURCE.parent),
    }
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)


FIVE = """
from ferryman.kernel import faults
for number in range(5):
    print(number, flush=True)
    faults.point('settle.committed')
"""


@pytest.mark.contract("R1")
def test_a_process_is_killed_at_the_hit_that_was_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "faults"

    process = run(FIVE, plan="settle.committed=kill@3", log=log)
    said, _ = process.communicate(timeout=30)

    assert process.returncode == -signal.SIGKILL
    assert said.split() == ["0", "1", "2"]
    assert log.read_text() == f"settle.committed kill 3 {process.pid}\n"


@pytest.mark.contract("R2")
def test_a_process_is_stopped_and_goes_on_when_told(tmp_path: Path) -> None:
    process = run(FIVE, plan="settle.committed=stop@2", log=tmp_path / "faults")
    _, status = os.waitpid(process.pid, os.WUNTRACED)

    assert os.WIFSTOPPED(status)
    os.kill(process.pid, signal.SIGCONT)
    said, _ = process.communicate(timeout=30)

    assert process.returncode == 0
    assert said.split() == ["0", "1", "2", "3", "4"]


def test_a_process_leaves_at_once(tmp_path: Path) -> None:
    process = run(FIVE, plan="settle.committed=exit", log=tmp_path / "faults")
    process.communicate(timeout=30)

    assert process.returncode == faults.EXIT_CODE


def test_a_point_is_inert_and_costs_next_to_nothing() -> None:
    began = time.thread_time()  # not by the clock on the wall: others may have the processor meanwhile
    for _ in range(100_000):
        faults.point("settle.before")

    assert time.thread_time() - began < 0.2  # some 40 ns each; the bound leaves room for a slow machine


def test_a_plan_ends_with_its_context() -> None:
    with faults.armed("settle.before=raise"), pytest.raises(faults.FaultInjected):
        faults.point("settle.before")

    faults.point("settle.before")


def test_a_fault_strikes_from_its_hit_onward() -> None:
    struck = []
    with faults.armed("settle.before=raise@3+"):
        for number in range(1, 6):
            try:
                faults.point("settle.before")
            except faults.FaultInjected:
                struck.append(number)

    assert struck == [3, 4, 5]


def strikes(plan: str) -> list[int]:
    struck = []
    with faults.armed(plan):
        for number in range(200):
            try:
                faults.point("renew.before")
            except faults.FaultInjected:
                struck.append(number)
    return struck


@pytest.mark.contract("R1")
def test_a_seed_repeats_its_plan_and_another_seed_does_not() -> None:
    first = strikes("renew.before=raise%0.1?seed=7")

    assert 5 < len(first) < 45
    assert strikes("renew.before=raise%0.1?seed=7") == first
    assert strikes("renew.before=raise%0.1?seed=8") != first


def test_the_database_can_be_said_to_be_away() -> None:
    with faults.armed("settle.before=away"), pytest.raises(errors.DatabaseUnavailable):
        faults.point("settle.before")


@pytest.mark.parametrize(
    "plan", ["settle.nowhere=kill", "settle.before=explode", "settle.before", "renew.before=kill@x"]
)
def test_an_unknown_point_or_action_is_refused(plan: str) -> None:
    with pytest.raises(errors.SettingsInvalid):
        faults.arm(plan)


def test_an_unknown_point_is_refused_where_it_is_passed() -> None:
    with faults.armed("settle.before=raise"), pytest.raises(errors.SettingsInvalid, match=r"settle\.typo"):
        faults.point("settle.typo")


async def test_a_delay_lets_the_loop_go_on() -> None:
    order = []

    async def pass_the_point() -> None:
        await faults.apoint("handler.started")
        order.append("point")

    with faults.armed("handler.started=delay:0.01"):
        waiting = asyncio.create_task(pass_the_point())
        await asyncio.sleep(0)
        order.append("loop")
        await waiting

    assert order == ["loop", "point"]


async def test_a_gate_holds_who_comes_until_it_is_opened() -> None:
    gate = faults.Gate()
    with faults.armed({"watchdog.found": gate}):
        held = asyncio.create_task(faults.apoint("watchdog.found"))
        await gate.reached.wait()
        assert not held.done()

        gate.open()
        await held


def test_a_gate_is_refused_at_a_point_that_cannot_wait() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with faults.armed({"settle.before": wait}), pytest.raises(TypeError, match="cannot"):
        faults.point("settle.before")


def test_every_point_in_the_code_is_registered_with_a_sentence() -> None:
    passed = re.compile(r"faults\.a?point\(\s*\"([^\"]+)\"")
    used = {name for file in SOURCE.rglob("*.py") for name in passed.findall(file.read_text(encoding="utf-8"))}

    assert used <= set(faults.REGISTRY)
    assert all(sentence.endswith(".") for sentence in faults.REGISTRY.values())
