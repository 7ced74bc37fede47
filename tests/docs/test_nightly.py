"""What a runner does at night: everything, also after a failure, and the failure is told."""

import os
import subprocess
from pathlib import Path

NIGHTLY = Path(__file__).resolve().parents[2] / ".ci" / "nightly"
JOBS = [
    "check",
    "test",
    "proof",
    "planted",
    "orders",
    "crash none",
    "crash nats",
    "crash lossy",
    "bad inputs",
    "document",
    "chaos",
]
UNSET = dict.fromkeys(("TEST_DOORBELL", "BAD_INPUTS", "FUZZ_EXAMPLES"), "")
# Stands where make stands, and writes down how it was called.
MAKE = """#!/bin/sh
echo "CI=$CI TEST_DOORBELL=$TEST_DOORBELL BAD_INPUTS=$BAD_INPUTS FUZZ_EXAMPLES=$FUZZ_EXAMPLES $*" >> "$ASKED"
[ "$1" != "$BROKEN" ]
"""


def run(folder: Path, *arguments: str, broken: str = "") -> tuple[subprocess.CompletedProcess[str], list[str]]:
    make = folder / "make"
    make.write_text(MAKE, encoding="utf-8")
    make.chmod(0o755)
    asked = folder / "asked"
    asked.touch()
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "ASKED": str(asked), "BROKEN": broken, **UNSET}
    ended = subprocess.run([NIGHTLY, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)
    return ended, asked.read_text(encoding="utf-8").splitlines()


def test_a_failure_at_night_is_told_and_does_not_end_the_rest(tmp_path: Path) -> None:
    ended, asked = run(tmp_path, broken="proof")

    told = ended.stdout.splitlines()[-len(JOBS) :]
    assert ended.returncode == 1
    assert [line.split("  ")[0] for line in told] == JOBS
    assert [job for job, line in zip(JOBS, told, strict=True) if "failed (1)" in line] == ["proof"]
    under = [line.split()[1] for line in asked if "ARGS=tests/crash/" in line]
    assert under == ["TEST_DOORBELL=none", "TEST_DOORBELL=nats", "TEST_DOORBELL=lossy"]
    assert "CI=1 TEST_DOORBELL= BAD_INPUTS=20000 FUZZ_EXAMPLES= test ARGS=tests/access -k bad_inputs" in asked
    assert "CI=1 TEST_DOORBELL= BAD_INPUTS= FUZZ_EXAMPLES=100 test ARGS=tests/access -k document_says" in asked
    assert asked[-1].endswith("chaos ARGS=--seed 7 --minutes 5")


def test_a_night_in_which_all_passed_ends_well_and_has_an_hour_more_when_asked(tmp_path: Path) -> None:
    ended, asked = run(tmp_path, "--soak")

    assert ended.returncode == 0
    assert ended.stdout.splitlines()[-1].startswith("soak ")
    assert asked[-1].endswith(" soak")


def test_a_night_without_an_environment_does_not_begin(tmp_path: Path) -> None:
    ended, asked = run(tmp_path, broken=".venv/.ready")

    assert (ended.returncode, len(asked)) == (1, 1)
