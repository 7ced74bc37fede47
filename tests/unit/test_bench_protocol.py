from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import run, venvs
from bench.protocol import ANSWER, Marks


def test_marks_made_by_one_process_are_seen_by_another(tmp_path: Path) -> None:
    ours, theirs = Marks(tmp_path / "marks"), Marks(tmp_path / "marks")

    theirs.start(0)
    theirs.start(2)

    assert ours.started(3)[0] > 0
    assert ours.begun(0, 3) == 1


def test_only_the_first_start_of_a_job_counts(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "marks")
    marks.start(0)
    first = marks.started(1)

    marks.start(0)

    assert marks.started(1) == first


@pytest.mark.parametrize("peer", run.PEERS)
def test_a_peer_shows_its_card_without_its_library(peer: str) -> None:
    said = subprocess.run(
        [sys.executable, "-m", f"bench.peers.{peer}", "card"],
        cwd=venvs.ROOT,
        check=True,
        capture_output=True,
        text=True,
    )

    assert said.stdout.startswith(ANSWER)
