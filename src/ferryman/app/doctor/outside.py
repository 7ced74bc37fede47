"""How the log goes out: how far its readers are, and what nobody took."""

from __future__ import annotations

from datetime import timedelta

from ferryman.app.doctor.report import BAD, GOOD, NOTE, Reading
from ferryman.kernel import duration
from ferryman.kernel.db import Tx
from ferryman.kernel.settings import Relays
from ferryman.relays import intake, webhook

LATE = timedelta(minutes=5)
# From here on it is days of the log that cannot be dropped.
LOST = timedelta(days=1)


async def relays(tx: Tx, settings: Relays) -> list[Reading]:
    """Look whether the readers of the log keep up, and whether webhooks are called."""
    readings = [
        Reading(
            "relays",
            BAD if behind >= LOST else NOTE,
            f"{each.name} is {each.behind} events behind, the oldest of {duration.show(behind)} ago; the log is kept for it.",
            "Start a worker that relays under this name, or `ferryman relay forget` it if it is gone for good.",
            [each.as_json()],
        )
        for each in await intake.standings(tx)
        if (behind := timedelta(seconds=round(each.behind_seconds))) >= LATE
    ]
    key = settings.webhook_key
    told = await intake.calls(tx, key_id="" if key is None else webhook.key_id(key))
    if told["strangers"]:
        says = f"{told['strangers']} active webhooks have secrets of another relays.webhook_key than the one set here."
        readings.append(Reading("webhooks", NOTE, says, "They are called by workers that have it; or rotate them."))
    if told["dead"]:
        says = f"{told['dead']} deliveries of webhooks died in the last day."
        readings.append(Reading("webhooks", NOTE, says, "See `ferryman relay webhook deliveries NAME --state dead`."))
    return readings or [
        Reading("relays", GOOD, "No reader of the log is behind, and no delivery died in the last day.")
    ]
