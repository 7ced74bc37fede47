"""What a checker looks at: all that was written down, what the processes said, and the tables as they are at the end."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from chaos.history import Line

Row = dict[str, Any]
Connection = psycopg.Connection[Row]


class Evidence:
    """All that was written down and said, and the tables as they are at the end."""

    def __init__(self, lines: Sequence[Line], connection: Connection, outputs: Mapping[str, str] | None = None) -> None:
        """Read the tables that most checks look at."""
        self.lines = lines
        self.outputs = dict(outputs or {})
        self._connection = connection
        self.tasks = {row["id"]: row for row in self.ask(
            "select id::text, name, state, epoch, attempt, idempotency_key as key, payload, result, last_error_code as code,"
            " schedule::text, fire_time, finished_at from ferryman.tasks"
        )}  # fmt: skip
        self.events = self.ask(
            "select id, extract(epoch from at)::float8 as at, subject::text as subject, kind, from_state, to_state,"
            " subject_name as name, reason_code as code, reason_message as reason from ferryman.events order by id"
        )

    def ask(self, question: str, *values: object) -> list[Row]:
        """Return what the database says."""
        return self._connection.execute(question.encode(), values).fetchall()

    def of(self, *whats: str, act: str | None = None) -> Iterator[Line]:
        """Give the lines that say one of these."""
        for line in self.lines:
            if line["what"] in whats and (act is None or line.get("act") == act):
                yield line


class Deaths:
    """When processes died, by their numbers, which may come again."""

    def __init__(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Read who was buried when."""
        self._times: dict[int, list[float]] = defaultdict(list)
        for line in lines:
            if line["what"] == "died":
                self._times[line["child"]].append(float(line["at"]))

    def after(self, pid: int, at: float) -> float:
        """Say when the one died that bore a number at a moment; never, if it lives: later deaths are of others."""
        return min((death for death in self._times[pid] if death > at), default=math.inf)


def overheard(folder: Path) -> dict[str, str]:
    """Return what each process said, by its name."""
    return {file.stem: file.read_text(encoding="utf-8", errors="replace") for file in folder.glob("*.output")}
