"""R3: a short run of chaos, and the plan of a seed; `make chaos` runs for minutes."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaos import acts, crew, plan
from chaos.history import History

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.contract("R3", "K1", "K24")
def test_nothing_is_lost_ends_twice_or_hangs_while_everything_breaks(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FERRYMAN_")}
    # A lease that also holds where other tests take most of the machine.
    crew = ["--lease", "4", "--workers", "2", "--dogs", "2", "--producers", "1", "--pace", "0.03"]
    ended = subprocess.run(
        [sys.executable, "-m", "chaos", "--seed", "7", "--minutes", "0.15", "--json", str(figures), *crew],
        cwd=ROOT, env={**kept, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}, capture_output=True, text=True,
        timeout=220, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-3000:]
    found = json.loads(figures.read_text(encoding="utf-8"))
    # Of some 25 that are drawn: whoever has not come up yet on a busy machine is not struck.
    assert found["faults"] >= 5
    # The first producer does one act of each kind before it draws any: each was acknowledged, and there is something of each.
    assert set(found["acts"]) == set(acts.ACTS)
    assert {kind: found[kind] > 0 for kind in ("turns", "batches", "commands", "records")} == dict.fromkeys(
        ("turns", "batches", "commands", "records"), True
    )
    assert found["looks"] > 0
    assert found["overdue"] == 0


@pytest.mark.contract("R3")
def test_one_seed_draws_one_plan_and_every_kind_of_fault_is_in_it() -> None:
    assert plan.draw(7, 180) == plan.draw(7, 180)
    assert plan.draw(7, 180) != plan.draw(8, 180)
    for seconds in (9, 180):
        drawn = plan.draw(7, seconds)
        assert {fault.kind for fault in drawn} == set(plan.RATES)
        assert all(0 < fault.at < seconds for fault in drawn)
    assert plan.life(7, "worker-1", 3, role="worker") == plan.life(7, "worker-1", 3, role="worker")
    assert len({plan.life(7, "worker-1", nth, role="worker") for nth in range(30)}) == 30
    # A renewal that is held up comes when its lease is over, however long that is.
    for lease in (2.0, 6.0):
        [late] = re.findall(
            r"renew.before=delay:([0-9.]+)", plan.life(7, "worker-1", 3, role="worker", lease=lease).faults
        )
        assert float(late) > lease
    # Whoever freezes for longer than its lease comes back as a zombie; whoever pauses does not.
    assert all(fault.seconds > plan.LEASE_SECONDS for fault in plan.draw(7, 600) if fault.kind == "freeze")
    assert all(fault.seconds < plan.LEASE_SECONDS for fault in plan.draw(7, 600) if fault.kind == "pause")


@pytest.mark.contract("R3")
def test_now_and_then_the_first_claim_of_a_turn_or_a_window_takes_longer_than_its_lease(tmp_path: Path) -> None:
    dice = random.Random(7)
    drawn = [acts.draw(dice, "batch", recent=[], windows=0, load=1.0, lease=2.0)[1] for _ in range(40)]
    slow = [arguments["slow"] for arguments in drawn if "slow" in arguments]

    assert 0 < len(slow) < len(drawn)
    assert min(slow) > 2.0
    told = History(tmp_path / "worker-0.0001.history")
    first, again = ([nth for nth in range(8) if crew._is_slow(nth, told)] for _ in range(2))
    assert (first, again) == ([3, 7], [])
