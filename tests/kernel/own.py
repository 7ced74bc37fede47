"""A server of the test's own, with settings that are read when it starts, or with a transaction counter far ahead."""

import subprocess
from pathlib import Path

import psycopg

from ferryman.app.embedded import Embedded
from ferryman.app.embedded.place import lodge


class Own:
    """One server that is made, changed while it is down, and started again."""

    def __init__(self, folder: Path) -> None:
        self._first = Embedded(folder, durable=False)
        self._then = Embedded(folder, durable=False, keep=False)
        self.url = ""

    def start(self, **settings: str) -> str:
        """Make it, and start it with these settings."""
        self._first.start()
        with psycopg.connect(self._first.url, autocommit=True) as connection:
            for name, value in settings.items():
                connection.execute(f"alter system set {name} = {value}")
        self._first.stop()
        self.url = self._then.start()
        return self.url

    def pass_epochs(self, count: int) -> str:
        """Make it, as old as if its 32 bits of transaction ids had been used up so often."""
        self._first.start()
        self._first.stop()
        place = lodge(self._first.directory)
        done = subprocess.run(
            [place.bin / "pg_resetwal", "--epoch", str(count), "-D", place.data],
            capture_output=True, text=True, check=False, cwd=place.data, **place.identity(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.url = self._then.start()
        return self.url

    def stop(self) -> None:
        self._first.stop()
        self._then.stop()
