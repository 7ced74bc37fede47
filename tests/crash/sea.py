"""A PostgreSQL of the test's own that waits for its disk, to be killed and started again."""

import os
import signal
import subprocess
from pathlib import Path

import asyncpg

from ferryman.app.embedded import Embedded
from ferryman.app.embedded.place import lodge
from ferryman.kernel import migrate
from tests.crash import judge
from tests.crash.yard import until


class Sea:
    """One server; what was acknowledged before a kill is there after it."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = folder
        self._settings = settings
        self._shares: list[Embedded] = []
        self._data = ""
        self.url = ""
        self.kills = 0

    async def begin(self) -> "Sea":
        self.start()
        await migrate.migrate(self.url)
        [row] = await judge.read(self.url, "select current_setting('data_directory') as place")
        self._data = row["place"]
        return self

    def start(self) -> None:
        share = Embedded(self._folder, keep=False, settings=self._settings)
        self.url = share.start()
        self._shares.append(share)

    def said(self) -> str:
        """Return what the server has said since it was started."""
        return (lodge(self._folder).home / "log").read_text(encoding="utf-8", errors="replace")

    async def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Let the server go by a signal to its postmaster: after SIGKILL its children notice and go by themselves.

        SIGINT is an orderly (fast) shutdown: who is connected is thrown out, and all is written. SIGQUIT is an immediate one:
        everybody goes at once, and the next start recovers.
        """
        pid = int((Path(self._data) / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
        os.kill(pid, how)
        await until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the postmaster")
        self.kills += 1

    async def freeze(self) -> list[int]:
        """Let every process of the server stand still; return them, the postmaster first.

        It stops before its children are listed: then none is born, and one that ends is there until it is waited for.
        """
        pid = int((Path(self._data) / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
        os.kill(pid, signal.SIGSTOP)
        stat = Path(f"/proc/{pid}/stat")
        await until(
            lambda: stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T", "a postmaster that stands"
        )
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        for child in map(int, children):
            os.kill(child, signal.SIGSTOP)
        return [pid, *map(int, children)]

    def copy(self, place: Path) -> Path:
        """Copy the files of a server that does not run, with their owner: a backup."""
        subprocess.run(["cp", "-a", self._data, place], check=True)
        return place

    def put_back(self, backup: Path) -> None:
        """Put a backup in the place of what is there."""
        subprocess.run(["rm", "-rf", self._data], check=True)
        subprocess.run(["cp", "-a", backup, self._data], check=True)

    async def kill_a_backend(self) -> None:
        """SIGKILL to one backend: the postmaster throws everybody out and recovers."""
        witness = await asyncpg.connect(self.url)
        [row] = await witness.fetch(
            "select pid from pg_stat_activity where application_name like 'ferryman%' order by random() limit 1"
        )
        os.kill(row["pid"], signal.SIGKILL)
        await until(witness.is_closed, "everybody to be thrown out")
        self.kills += 1

    async def terminate_all(self) -> int:
        """End every connection of the product."""
        connection = await asyncpg.connect(self.url)
        try:
            rows = await connection.fetch(
                "select pg_terminate_backend(pid) as done from pg_stat_activity where application_name like 'ferryman%'"
            )
        finally:
            await connection.close()
        return sum(row["done"] for row in rows)

    def end(self) -> None:
        for share in self._shares:
            share.stop()
