"""`ferryman ingest rewind`."""

from __future__ import annotations

from typing import Annotated

from ferryman.app.sources import ENDPOINT
from ferryman.cli import choices
from ferryman.cli.ingest.look import place, told
from ferryman.cli.ingest.plan import instant
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import says
from ferryman.kernel import errors


async def rewind(
    source: Annotated[str, says("Name of the source.")],
    endpoint: Annotated[str, says("Its endpoint.")] = ENDPOINT,
    /,
    *,
    to: Annotated[str, says("An instant behind the cursor, or an id.")],
    reason: Annotated[str, says("Why; it stays in the cursor's events.")],
    operation: Annotated[choices.Operation, says("Whose cursor.")] = "HARVEST",
    options: Options = PLAIN,
) -> None:
    """Take a cursor back; the next plan begins there. The events keep who was where, and why."""
    wanted = "an id, or an instant behind the cursor"
    at = int(to) if to.lstrip("-").isdigit() else instant(to, "--to", errors.IngestInvalidRequest, expected=wanted)
    assert at is not None  # only no text at all is no instant
    async with options.app() as app:
        moved = await app.ingest.rewind(source, endpoint, to=at, reason=reason, operation=operation)
    if options.screen.json:
        options.screen.document(told(moved))
        return
    options.screen.print(f"{moved.name}  stands at {place(moved, moved.position)}")
