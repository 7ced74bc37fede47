"""Two servers: a primary and a standby that follows it, to be cut off, killed and promoted."""

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

import psycopg

from ferryman.app.embedded import Embedded
from ferryman.app.embedded.place import lodge
from tests.crash import judge
from tests.crash.yard import until
from tests.patience import PATIENCE_SECONDS


class Pair:
    """A primary, and a standby that follows it."""

    def __init__(self, folder: Path) -> None:
        self._primary = Embedded(folder / "primary", keep=False)
        self._folder = folder / "standby"
        self._standby: subprocess.Popen[bytes] | None = None
        self.primary = self.standby = self.both = ""

    def start(self) -> None:
        self.primary = self._primary.start()
        place = lodge(self._primary.directory)
        self._folder.mkdir()
        data, sockets = self._folder / "data", self._folder / "s"
        for made in (data, sockets):
            place.own(made)
        programs = self._primary.programs
        copied = subprocess.run(
            [programs / "pg_basebackup", "-D", data, "-R", "-c", "fast", "-h", place.sockets, "-U", "postgres"],
            capture_output=True, text=True, check=False, cwd=data, **place.identity(),
        )  # fmt: skip
        assert copied.returncode == 0, copied.stderr
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(sockets),
            "max_standby_streaming_delay": "1s",
            "max_connections": self._allowed(),  # a standby may not allow fewer than its primary
        }
        command = [str(programs / "postgres"), "-D", str(data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self._folder / "log").open("wb") as log:
            self._standby = subprocess.Popen(command, cwd=data, stdout=log, stderr=log, **place.identity())
        self.standby = f"postgresql://postgres@/postgres?host={sockets}"
        # Whoever has it goes to the one of them that takes writes.
        self.both = f"{self.primary},{sockets}&target_session_attrs=read-write"
        self._await(data)

    def _allowed(self) -> str:
        with psycopg.connect(self.primary) as connection:
            [allowed] = connection.execute("show max_connections").fetchone() or ("",)
        return str(allowed)

    def _await(self, data: Path) -> None:
        deadline = time.monotonic() + 30
        while "standby" not in _status(data) and "ready" not in _status(data):
            assert time.monotonic() < deadline, (self._folder / "log").read_text(encoding="utf-8")[-2000:]
            time.sleep(0.02)

    async def name(self) -> None:
        """Let commits wait for the standby."""
        await set_up(self.primary, "synchronous_standby_names = '*'")
        await seen(self.primary, "select from pg_stat_replication where sync_state = 'sync'")

    async def cut_off(self) -> None:
        """Let the standby hear nothing more of its primary."""
        await set_up(self.standby, "primary_conninfo = ''")
        await gone(self.primary, "select from pg_stat_replication")

    async def kill(self) -> None:
        """SIGKILL to the primary; it does not come back."""
        pid = int(
            (lodge(self._primary.directory).data / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0]
        )
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the primary")

    async def promote(self) -> None:
        """Make the standby a primary."""
        [row] = await judge.read(self.standby, "select pg_promote() as done")
        assert row["done"]

    def stop(self) -> None:
        if self._standby is not None:
            self._standby.terminate()
            self._standby.wait()
            print((self._folder / "log").read_text(encoding="utf-8")[-3000:])  # shown if the test has failed
        self._primary.stop()


def _status(data: Path) -> str:
    """Return what the server says of itself in its file."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ""
    return lines[7].strip() if len(lines) > 7 else ""


async def set_up(url: str, setting: str) -> None:
    await judge.read(url, f"alter system set {setting}")
    await judge.read(url, "select pg_reload_conf()")


async def seen(url: str, query: str) -> None:
    """Wait until a question finds something."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await judge.read(url, query):  # noqa: ASYNC110 - the sign is a row
            await asyncio.sleep(0.02)


async def gone(url: str, query: str) -> None:
    """Wait until a question finds nothing."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await judge.read(url, query):  # noqa: ASYNC110 - the sign is a row
            await asyncio.sleep(0.02)
