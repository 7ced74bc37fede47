"""An app with a source, for the commands that need one."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ferryman import Ferryman
from ferryman.ingest.ports import Failure, FetchFailed, Item, Page, Request, Written
from ferryman.kernel.db import Tx

DAWN = datetime(2026, 1, 1, tzinfo=UTC)
RECORDS: list[dict[str, Any]] = [{"id": n, "at": (DAWN + timedelta(minutes=n)).isoformat()} for n in range(120)]

app = Ferryman()


class Shelf:
    same_database = True

    async def write(self, tx: Tx | None, items: Sequence[Item], *, batch_key: str) -> Written:
        assert tx is not None
        await tx.fetch("select jsonb_array_length($1::jsonb)", json.dumps(list(items)))
        return Written(len(items), [(item, "the answer to everything") for item in items if item["id"] == 42])


@app.source(name="depot", sink=Shelf(), safety_lag=timedelta(0))
async def fetch(request: Request) -> Page:
    assert request.window is not None
    if request.window.since.year == 2020:
        raise FetchFailed("it was never there", kind=Failure.AUTH, status=403)
    return Page([each for each in RECORDS if request.window.holds(datetime.fromisoformat(each["at"]))])
