"""Batches: begun, met, succeeded, failed; and the records that were put aside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from ferryman.ingest.model import Claimed, Records
from ferryman.kernel.db import Row, Tx, load, many, one, sqlstate

_HERE = "ferryman.ingest"
_BEGIN = load(_HERE, "ingest_batch/begin")
_TURN = load(_HERE, "ingest_batch/turn")
_FAIL = load(_HERE, "ingest_batch/fail")
_FIND = load(_HERE, "ingest_batch/find")
_PUT = load(_HERE, "ingest_quarantine/put")

# Of refuse_stale_page.
_STALE = "FM020"


@dataclass(frozen=True, slots=True)
class Finished:
    """What a batch came to."""

    after: str | None
    has_next: bool
    records: int
    requests: int
    watermark: datetime | None
    covered: int | None
    stats: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Birth:
    """A batch that is to be there before its request goes out."""

    id: UUID
    number: int
    position: str
    key: str
    stats: str


_NOBODY = Birth(UUID(int=0), 0, "", "", "{}")


async def begin(tx: Tx, task: Claimed, birth: Birth, *, owner: UUID, patience: timedelta) -> Row | None:
    """Give birth to a batch, or tell what is at its position; None if the claim is stale."""
    return await one(
        tx, _BEGIN,
        task_id=task.id, epoch=task.epoch, owner=owner, id=birth.id, slice_id=task.slice_id, batch_no=birth.number,
        tenant=task.tenant, before_token=birth.position, key=birth.key, patience=patience, stats=birth.stats,
    )  # fmt: skip


async def turn(
    tx: Tx,
    task: Claimed,
    finished: Finished,
    *,
    owner: UUID,
    id: UUID,
    patience: timedelta,
    following: Birth | None = None,
    records: Records | None = None,
) -> Row | None:
    """End a batch well, write its records, give birth to the next; None if the claim is stale.

    With records it stands alone: under a stale claim it fails, and any transaction around it with it.
    """
    born = following or _NOBODY
    told = {
        "task_id": task.id, "epoch": task.epoch, "owner": owner, "id": id, "after_token": finished.after,
        "has_next": finished.has_next, "record_count": finished.records, "requests": finished.requests,
        "watermark": finished.watermark, "covered": finished.covered, "stats": _text(finished.stats),
        "next_id": None if following is None else born.id, "next_no": born.number, "next_token": born.position,
        "next_key": born.key, "next_stats": born.stats, "patience": patience,
        "records": records and records.sql, "page": records and records.page,
        "look": records and records.look, "fresh": records and records.fresh,
        "table": records and records.table, "shape": records and records.shape,
    }  # fmt: skip
    try:
        return await one(tx, _TURN, **told)
    except Exception as error:
        if sqlstate(error) != _STALE:
            raise
        return None


async def fail(
    tx: Tx, task: Claimed, *, owner: UUID, id: UUID, requests: int, reason: str, stats: Mapping[str, Any]
) -> bool:
    """End a batch badly; its position is free again. False if the claim is stale."""
    told = _text(stats)
    row = await one(
        tx, _FAIL, task_id=task.id, epoch=task.epoch, owner=owner, id=id, requests=requests, reason=reason, stats=told
    )
    return row is not None


def _text(stats: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(dict(stats)).decode()
    except TypeError:  # a source may say what only the other knows: keys that are numbers, numbers beyond 64 bits
        return json.dumps(dict(stats))


async def find(tx: Tx, id: UUID) -> Row | None:
    """Read what became of a batch."""
    return await one(tx, _FIND, id=id)


async def quarantine(tx: Tx, task: Claimed, batch_id: UUID, bad: Sequence[tuple[int, str, str]]) -> None:
    """Put records aside, each with its number, its reason and its text."""
    await many(
        tx, _PUT,
        batch_id=batch_id, tenant=task.tenant, source=task.source, endpoint=task.endpoint,
        item_nos=[number for number, _, _ in bad], reasons=[reason for _, reason, _ in bad],
        items=[text for _, _, text in bad],
    )  # fmt: skip
