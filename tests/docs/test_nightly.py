"""What a runner does at night: everything, also after a failure, and the failure is told."""

import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

NIGHTLY = Path(__file__).resolve().parents[2] / ".ci" / "nightly"
JOBS = [
    "check",
    "test",
    "proof",
    "planted",
    "planted chaos",
    "orders",
    "every case",
    "crash none",
    "crash nats",
    "crash lossy",
    "crash doubled",
    "crash late",
    "bad inputs",
    "document",
    "chaos",
    "short lives",
    "pooler",
]
UNSET = dict.fromkeys(("TEST_DOORBELL", "EVERY_CASE", "BAD_INPUTS", "FUZZ_EXAMPLES"), "")
# Stands where make stands, and writes down how it was called.
MAKE = """#!/bin/sh
inputs="BAD_INPUTS=$BAD_INPUTS FUZZ_EXAMPLES=$FUZZ_EXAMPLES INPUT_SEED=$INPUT_SEED"
echo "CI=$CI TEST_DOORBELL=$TEST_DOORBELL $inputs $*" >> "$ASKED"
[ "$1" != "$BROKEN" ]
"""


def run(
    folder: Path, *arguments: str, broken: str = "", seed: str = ""
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    make = folder / "make"
    make.write_text(MAKE, encoding="utf-8")
    make.chmod(0o755)
    asked = folder / "asked"
    asked.touch()
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "ASKED": str(asked), "BROKEN": broken, **UNSET, "INPUT_SEED": seed}
    ended = subprocess.run([NIGHTLY, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)
    return ended, asked.read_text(encoding="utf-8").splitlines()


def test_a_failure_at_night_is_told_and_does_not_end_the_rest(tmp_path: Path) -> None:
    ended, asked = run(tmp_path, broken="proof")

    told = ended.stdout.splitlines()[-len(JOBS) :]
    assert ended.returncode == 1
    assert [line.split("  ")[0] for line in told] == JOBS
    assert [job for job, line in zip(JOBS, told, strict=True) if "failed (1)" in line] == ["proof"]
    [seed] = re.findall(r"^inputs are drawn by INPUT_SEED=(\d{8})$", ended.stdout, re.MULTILINE)
    under = [line.split()[1] for line in asked if "ARGS=tests/crash/" in line]
    assert under == [f"TEST_DOORBELL={bell}" for bell in ("none", "nats", "lossy", "doubled", "late")]
    inputs = f"INPUT_SEED={seed} test ARGS=tests/access"
    assert f"CI=1 TEST_DOORBELL= BAD_INPUTS=20000 FUZZ_EXAMPLES= {inputs} -k bad_inputs" in asked
    assert f"CI=1 TEST_DOORBELL= BAD_INPUTS= FUZZ_EXAMPLES=100 {inputs} -k document_says" in asked
    assert any(line.endswith(" planted ARGS=--chaos") for line in asked)
    assert asked[-3].endswith(f"chaos ARGS=--seed {seed} --minutes 5")
    assert asked[-1].endswith(f"chaos ARGS=--seed {seed} --minutes 3 --pooler")


def test_each_night_draws_by_its_day_and_one_that_failed_can_be_drawn_again(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    ended, _ = run(tmp_path)
    days = {f"{day:%Y%m%d}" for day in (before, datetime.now(UTC))}
    assert ended.stdout.splitlines()[0] in {f"inputs are drawn by INPUT_SEED={day}" for day in days}

    again, asked = run(tmp_path, seed="20260102")
    assert again.stdout.splitlines()[0] == "inputs are drawn by INPUT_SEED=20260102"
    assert asked[-4].endswith("INPUT_SEED=20260102 test ARGS=tests/access -k document_says")


def test_a_night_in_which_all_passed_ends_well_and_has_an_hour_more_when_asked(tmp_path: Path) -> None:
    ended, asked = run(tmp_path, "--soak")

    assert ended.returncode == 0
    assert [line.split("  ")[0] for line in ended.stdout.splitlines()[-2:]] == ["soak", "soak, leaving"]
    assert asked[-2].endswith(" soak")
    assert asked[-1].endswith(" soak ARGS=--minutes 20 --retention 60")


def test_a_night_without_an_environment_does_not_begin(tmp_path: Path) -> None:
    ended, asked = run(tmp_path, broken=".venv/.ready")

    assert (ended.returncode, len(asked)) == (1, 1)
