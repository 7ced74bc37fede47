"""`ferryman worker`."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

from ferryman.cli import apps, logs, metrics, signals
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import command, says
from ferryman.kernel import errors
from ferryman.kernel.settings import Settings

LOG = logging.getLogger("ferryman.worker")


async def worker(
    *,
    app: Annotated[str, says("The app, as module:attribute.")],
    queues: Annotated[str | None, says("Queues to serve, separated by commas.")] = None,
    concurrency: Annotated[int | None, says("How many tasks run at once.")] = None,
    lease: Annotated[str | None, says("How long a task stays ours without a sign of life, such as 30s.")] = None,
    grace: Annotated[str | None, says("How long running tasks may go on after the first signal, such as 20s.")] = None,
    log: Annotated[logs.Form, says("Form of the logs on stderr.")] = "text",
    log_level: Annotated[str, says("debug, info, warning or error.")] = "info",
    metrics_port: Annotated[int, says("Answer Prometheus on 127.0.0.1 at this port; 0 is off.")] = 0,
    options: Options = PLAIN,
) -> None:
    """Run an app's tasks, with a watchdog, until told to stop.

    SIGTERM or Ctrl-C stops claiming, lets running tasks finish within the grace period and hands back the rest; a second
    one leaves at once.
    """
    _begin_logs(log, log_level)
    loaded = apps.load(app, options.overrides())
    terms = agreed({"queues": queues, "concurrency": concurrency, "lease": lease, "grace": grace})
    stop = asyncio.Event()
    with metrics.serving(metrics_port), signals.draining(stop, _told):
        # A machine may start its workers before its database: they wait for it.
        await loaded.open(unless=stop)
        try:
            if not stop.is_set():
                await loaded.work(stop=stop, **terms)
        finally:
            await loaded.close()


def agreed(given: dict[str, Any]) -> dict[str, Any]:
    """Check terms as settings are checked, and return those that were given."""
    said = {name: value for name, value in given.items() if value is not None}
    checked = Settings.load({"worker": said}, environ={}).worker
    return {name: getattr(checked, name) for name in said}


def _begin_logs(form: logs.Form, level: str) -> None:
    try:
        logs.begin(form, level=level)
    except ValueError:
        raise errors.UsageInvalid(f"--log-level: expected debug, info, warning or error, got {level!r}.") from None


def _told(signal: str) -> None:
    LOG.info("draining; once more to leave at once", extra={"signal": signal})


program = command("worker", worker)
