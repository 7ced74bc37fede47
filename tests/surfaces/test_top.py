"""`ferryman top`: one snapshot for programs, a screen that goes on for people."""

import asyncio
import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from ferryman import Ferryman
from ferryman.app.doctor.report import Reading, Verdict
from ferryman.app.figures import KINDS, Depth, Figures
from ferryman.cli import boundary
from ferryman.cli.top import view
from ferryman.cli.top.keys import Keys
from ferryman.cli.top.snapshot import Snapshot
from ferryman.testing import travel
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import ferry

DAWN = datetime(2026, 11, 1, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Terminal:
    """A terminal of 30 lines, and what was drawn on it."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self._fd = fd
        self.seen = ""

    def until(self, word: str) -> None:
        """Read until a word has been drawn."""
        end = time.monotonic() + PATIENCE_SECONDS
        while word not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self._fd], [], [], 1.0)[0]:
                self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(self._fd, 65536).decode(errors="replace"))

    def press(self, key: str) -> None:
        os.write(self._fd, key.encode())

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._fd)[3] & termios.ECHO)


@contextmanager
def terminal(*arguments: str, url: str) -> Iterator[Terminal]:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen(
        [*ferry.COMMAND, *arguments], stdin=follower, stdout=follower, stderr=follower, cwd=ferry.HERE,
        env=ferry.environ(url, TERM="xterm"), start_new_session=True,
    )  # fmt: skip
    try:
        yield Terminal(process, leader)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(leader)
        os.close(follower)


@pytest.mark.contract("S3")
async def test_a_snapshot_tells_what_waits_what_was_done_and_what_is_wrong(database_url: str) -> None:
    async with Ferryman(database_url) as app:
        await app.tasks.create_many("greet", [{"name": str(n)} for n in range(7)])
        await app.tasks.create("greet", {"name": "later"}, at=datetime.now(UTC) + timedelta(hours=1))
        async with app.database.session() as tx:
            await travel(tx, timedelta(seconds=5))  # the last seconds are not counted yet

    ran = ferry.run("top", "--json", url=database_url)

    assert ran.json["minute"]["born"] == 8
    assert ran.json["queues"][0] | {"oldest_seconds": 0} == {
        "queue": "default", "pending": 1, "ready": 7, "running": 0, "oldest_seconds": 0, "paused": False,
    }  # fmt: skip
    assert (ran.json["waiting"], ran.json["running"], ran.json["workers"]) == (8, 0, [])
    assert "workers" in {each["name"] for each in ran.json["alarms"]}


def test_in_a_pipe_it_shows_what_is_now_and_leaves(database_url: str) -> None:
    ran = ferry.run("top", url=database_url)

    assert (ran.code, ran.err) == (0, "")
    assert "Queues: nothing waits" in ran.out
    assert "q leave" not in ran.out


@pytest.mark.contract("S3")
async def test_the_screen_goes_on_hears_keys_and_gives_the_terminal_back(database_url: str) -> None:
    with terminal("top", url=database_url) as seen:
        await asyncio.to_thread(seen.until, "q leave")
        assert not seen.echoes()
        async with Ferryman(database_url) as app:
            await app.tasks.create_many("greet", [{"name": str(n)} for n in range(31)])
        await asyncio.to_thread(seen.until, "31")
        seen.press("p")
        await asyncio.to_thread(seen.until, "held still")
        seen.press("q")

        assert await asyncio.to_thread(seen.process.wait, PATIENCE_SECONDS) == 0
        assert seen.echoes()


def test_ctrl_c_leaves_it_in_order(database_url: str) -> None:
    with terminal("top", url=database_url) as seen:
        seen.until("q leave")
        seen.process.send_signal(signal.SIGINT)

        assert seen.process.wait(PATIENCE_SECONDS) == 0
        assert seen.echoes()


@pytest.mark.parametrize("typed", ["never", "0.1s", "2h"])
def test_a_rhythm_that_cannot_be_kept_is_refused(typed: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert boundary.run(["top", "--every", typed]) == 2
    assert "from 1s to 1m" in capfd.readouterr().err


def shown(*alarms: Reading, **series: int) -> Snapshot:
    counts = {kind: [0] * 599 + [series.get(kind, 0)] for kind in KINDS}
    depths = [Depth(f"queue-{n}", ready=n, oldest=timedelta(seconds=n)) for n in range(40)]
    return Snapshot("acme", Figures(DAWN, counts, depths, 0, {"queue-39": DAWN}), [], alarms)


@pytest.mark.parametrize(("height", "width"), [(24, 80), (30, 100), (16, 60), (60, 250)])
def test_what_does_not_fit_on_the_screen_is_counted_and_alarms_come_first(height: int, width: int) -> None:
    from rich.console import Console

    keys = Keys(asyncio.Event(), every=SECOND, shortest=SECOND, longest=MINUTE)
    alarm = Reading("handlers", Verdict.BAD, "No living worker takes greet. " * 3, "Start one.")
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(view.draw(shown(alarm, born=3), keys=keys, height=height, width=width))
    lines = console.export_text().splitlines()

    assert len(lines) <= max(height, 20)
    assert lines[1].startswith("Alarm, handlers: No living worker")
    assert "queue-39 paused" in "\n".join(lines)
    assert "more" in "\n".join(lines)
    assert [each for each in lines if each.startswith("succeeded")], "names are not cut"
    assert "q leave" in lines[-1]


def test_a_line_of_bars_shows_the_least_that_there_is() -> None:
    assert view.sparkline([0, 1, 1000]) == " ▁█"
    assert view.sparkline([0, 0]) == "  "


@pytest.mark.parametrize(
    ("keys", "left", "still", "every"),
    [
        ("q", True, False, 1),
        ("pp", False, False, 1),
        (" ", False, True, 1),
        ("--+", False, False, 2),
        ("x", False, False, 1),
    ],
)
def test_keys_do_what_they_say(keys: str, left: bool, still: bool, every: int) -> None:
    stop = asyncio.Event()
    heard = Keys(stop, every=SECOND, shortest=SECOND, longest=MINUTE)

    for key in keys:
        heard.press(key)

    assert (stop.is_set(), heard.still, heard.every) == (left, still, timedelta(seconds=every))
