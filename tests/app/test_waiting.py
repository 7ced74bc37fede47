import asyncio
import gc
from typing import Any

from ferryman import Ferryman


async def test_a_wait_that_was_given_up_is_not_told_of_when_the_app_closes(database_url: str) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
    async with Ferryman(database_url) as app:
        handle = await app.tasks.create("greet", {})
        waiting = asyncio.create_task(handle.result())
        await asyncio.wait([waiting], timeout=0.1)
        waiting.cancel()
        await asyncio.wait([waiting])
        del waiting  # it holds the frame that holds what it waited for
    gc.collect()

    assert told == []
