"""Absurd: durable tasks as stored procedures. Here for the fastest single creates among the durable peers."""

from __future__ import annotations

import itertools

from bench.protocol import Peer, Sizes, main

CLIENTS = 10


class Absurd(Peer):
    name = "absurd"
    can = ("enqueue",)
    done = "select count(*) from absurd.t_jobs where state = 'completed'"
    sizes = Sizes(flight=4_000)
    settings = f"{CLIENTS} clients of one connection each; no bulk create"

    async def migrate(self) -> None:
        import absurdctl
        import psycopg
        from absurd_sdk import AsyncAbsurd

        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        client = AsyncAbsurd(self.url, queue_name="jobs")
        await client.create_queue("jobs")
        await client.close()

    async def open(self) -> None:
        from absurd_sdk import AsyncAbsurd

        self.clients = [AsyncAbsurd(self.url, queue_name="jobs") for _ in range(CLIENTS)]
        self.turns = itertools.cycle(self.clients)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    async def create(self, job: int) -> None:
        await next(self.turns).spawn("noop", {"job": job}, queue="jobs")


if __name__ == "__main__":
    main(Absurd)
