"""Take the pictures of the dashboard that the docs show, from a server whose app has a past (see tools/scenery.py).

python -m tools.pictures                    docs/pictures/*.png, written anew
python -m tools.pictures --all DIRECTORY    every page, wide, narrow and dark, to look at
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from playwright.async_api import Browser, async_playwright

from ferryman.http.serving import serving
from ferryman.testing import Cluster
from tools import browser as browsers
from tools import scenery

KEPT = Path(__file__).parent.parent / "docs" / "pictures"
WIDE, NARROW = (1280, 800), (390, 780)
ROUNDS = 60
SETTLED_MS = 2500  # figures are a second or two behind


class Shot(NamedTuple):
    """One picture: its name, the page, and how it is looked at."""

    name: str
    path: str
    size: tuple[int, int] = WIDE
    dark: bool = False
    whole: bool = False


DOCS = (
    Shot("overview", "/"),
    Shot("overview-dark", "/", dark=True),
    Shot("task", "/tasks/{order}"),
    Shot("tasks-phone", "/tasks", NARROW),
    Shot("turn", "/turns/{waits}"),
    Shot("batch", "/batches/{tree}"),
    Shot("plan", "/ingest/plans/{harvest}"),
)
PAGES: Mapping[str, str] = {
    "overview": "/", "tasks": "/tasks", "failed": "/tasks?state=failed", "task-order": "/tasks/{order}",
    "task-broken": "/tasks/{broken}", "task-waiting": "/tasks/{waiting}", "task-report": "/tasks/{report}",
    "schedules": "/schedules", "schedule": "/schedules/{ticking}", "queues": "/queues", "queue": "/queues/images",
    "workers": "/workers", "watchdog": "/watchdog", "tenants": "/tenants", "log": "/log", "docs": "/docs",
    "search": "/search?q=mail",
    "login": "/login", "empty": "/tasks?name=nobody", "agents": "/agents", "agent": "/agents/ada", "turn": "/turns/{turn}",
    "turn-waits": "/turns/{waits}", "turn-forks": "/turns/{forker}", "batches": "/batches", "batch-runs": "/batches/{running}",
    "batch-tree": "/batches/{tree}", "commands": "/commands", "command": "/commands/{told}",
    "command-waits": "/commands/{cover}",
    "capabilities": "/commands/statistics", "ingest": "/ingest", "source": "/ingest/sources/orders",
    "plan": "/ingest/plans/{harvest}", "plan-runs": "/ingest/plans/{stuck}", "blackbox": "/ingest/tasks/{harvest}",
    "webhooks": "/webhooks", "webhook": "/webhooks/{ledger}",
}  # fmt: skip


def everything() -> list[Shot]:
    """Return every page in every way."""
    return [
        shot
        for name, path in PAGES.items()
        for shot in (
            Shot(name, path, whole=True),
            Shot(f"{name}-dark", path, dark=True, whole=True),
            Shot(f"{name}-phone", path, NARROW, whole=True),
        )
    ]


async def take(shots: list[Shot], directory: Path) -> None:
    """Take pictures into a directory."""
    found = browsers.get()
    if found is None:
        raise SystemExit("There is no browser.")
    with tempfile.TemporaryDirectory() as place, Cluster(place) as cluster:
        async with (
            cluster.database() as url,
            scenery.playing(url, rounds=ROUNDS) as scene,
            serving(scene.app, guard=None, port=0) as served,
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(executable_path=found, args=list(browsers.ARGUMENTS))
            for shot in shots:
                await _shoot(browser, shot, served.url, {name: str(id) for name, id in scene.parts.items()}, directory)
            await browser.close()


async def _shoot(browser: Browser, shot: Shot, url: str, parts: Mapping[str, str], directory: Path) -> None:
    width, height = shot.size
    page = await browser.new_page(
        viewport={"width": width, "height": height}, color_scheme="dark" if shot.dark else "light"
    )
    await page.goto(url + shot.path.format(**parts), wait_until="load")
    if shot.path == "/":
        await page.wait_for_timeout(SETTLED_MS)
    await page.screenshot(path=directory / f"{shot.name}.png", full_page=shot.whole)
    await page.close()


def main() -> None:
    """Take the pictures."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--all", type=Path)
    given.add_argument("--only", default="")
    asked = given.parse_args()
    directory = asked.all or KEPT
    directory.mkdir(parents=True, exist_ok=True)
    shots = [each for each in (everything() if asked.all else DOCS) if each.name.startswith(asked.only)]
    asyncio.run(take(shots, directory))
    sys.stderr.write(f"{len(shots)} pictures in {directory}\n")


if __name__ == "__main__":
    main()
