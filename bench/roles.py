"""The roles that a peer plays: card, migrate, client, worker. Every peer's environment loads this file, too."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import signal
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from bench.operations import OPERATIONS
from bench.protocol import ANSWER, Card, Marks, Order, Peer


async def _client(peer: Peer, order: Order) -> dict[str, Any]:
    await peer.open()
    try:
        return await OPERATIONS[order.op](peer, order)
    finally:
        await peer.close()


async def _worker(peer: Peer) -> None:
    work = asyncio.ensure_future(peer.work())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work


def _run(work: Awaitable[None], *, fast: bool) -> None:
    if fast:
        import uvloop

        uvloop.run(work)  # type: ignore[arg-type]
    else:
        asyncio.run(work)  # type: ignore[arg-type]


def main(peer_class: type[Peer]) -> None:
    """Play the role named on the command line."""
    line = argparse.ArgumentParser()
    line.add_argument("role", choices=["card", "migrate", "client", "worker"])
    line.add_argument("--order", default="{}", help="an Order, as JSON")
    given = line.parse_args()
    if given.role == "card":
        card = {field.name: getattr(peer_class, field.name) for field in dataclasses.fields(Card)}
        print(ANSWER + json.dumps(card | {"sizes": dataclasses.asdict(peer_class.sizes)}))
        return
    marks = Marks(Path(os.environ["BENCH_MARKS"]))
    peer = peer_class(os.environ["BENCH_URL"], marks, queues=int(os.environ["BENCH_QUEUES"]))
    if given.role == "migrate":
        asyncio.run(peer.migrate())
    elif given.role == "client":
        answer = asyncio.run(_client(peer, Order(**json.loads(given.order))))
        print(ANSWER + json.dumps(answer), flush=True)
    else:
        _run(_worker(peer), fast=peer_class.uvloop)
