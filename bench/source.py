"""A server that gives out pages, for measurements of ingestion: `python -m bench.source`; the first line says where.

With `--latency` it answers every request after that time, and with `--at-once` it serves only so many of one client's requests
at a time; the others wait. Clients are told apart by the last part of the path. `/told` says what it has seen: how many pages,
the seconds from the first request to the last answer, and which share of the clients' places was in use in that time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections import defaultdict

import orjson
from aiohttp import web

SIZE = 100


class Source:
    """Pages of 100 records, and an account of who asked for them."""

    def __init__(self, *, latency: float, at_once: int) -> None:
        self.latency = latency
        self.at_once = at_once
        self.places: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))
        self.pages = 0
        self.first = self.last = 0.0

    async def answer(self, request: web.Request) -> web.Response:
        self.first = self.first or time.perf_counter()
        number, first = int(request.query["page"]), int(request.query.get("first", SIZE))
        begin = first + (number - 1) * SIZE
        place = self.places[request.match_info["client"]] if self.at_once else contextlib.nullcontext()
        async with place:
            await asyncio.sleep(self.latency)
        items = [
            {
                "id": id,
                "name": f"item {id} of page {number}",
                "price": (id - begin) * 1.25,
                "tags": ["a", "b", "c"],
                "updated_at": "2026-11-16T00:00:00+00:00",
            }
            for id in range(begin, begin + SIZE)
        ]
        more = begin + SIZE < int(request.query.get("last", sys.maxsize))
        self.pages += 1
        self.last = time.perf_counter()
        return web.Response(body=orjson.dumps({"items": items, "more": more}), content_type="application/json")

    async def tell(self, _request: web.Request) -> web.Response:
        seconds = self.last - self.first
        places = max(1, len(self.places)) * max(1, self.at_once)
        busy = self.pages * self.latency / (places * seconds) if seconds else 0.0
        return web.Response(body=orjson.dumps({"pages": self.pages, "seconds": seconds, "busy": busy}))


async def serve(source: Source) -> None:
    app = web.Application()
    app.router.add_get("/items/{client}", source.answer)
    app.router.add_get("/told", source.tell)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    line = argparse.ArgumentParser(prog="bench.source", description="Give out pages.")
    line.add_argument("--latency", type=float, default=0.0)
    line.add_argument("--at-once", type=int, default=0)
    asked = line.parse_args()
    asyncio.run(serve(Source(latency=asked.latency, at_once=asked.at_once)))


if __name__ == "__main__":
    main()
