"""Webhooks over HTTP: receivers of events, and what was delivered to them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response

from ferryman.app.relays import Added
from ferryman.http.answers import LIMIT, Asked, Limit, Page, Shape, also, page
from ferryman.http.bodies import asks, takes
from ferryman.http.callers import Reading, Ruling, Visit, Writing
from ferryman.http.fields import Before, Named
from ferryman.http.routes.tasks import Reason
from ferryman.relays.model import Delivery as Record
from ferryman.relays.model import Webhook as Known
from ferryman.relays.states import DeliveryState, WebhookState

router = APIRouter(tags=["webhooks"])


class NewWebhook(Asked):
    """A receiver to be told of what happens from now on: of everything, or of these kinds ("task", "task.failed")."""

    url: str
    kinds: list[str] | None = None
    name: str | None = None


class Webhook(Shape):
    """A receiver of events."""

    id: UUID
    tenant: str
    name: str | None
    url: str
    kinds: list[str] | None
    state: WebhookState
    secret_version: int
    created_at: datetime
    updated_at: datetime
    rotated_at: datetime | None
    disabled_at: datetime | None


class Secret(Shape):
    """A webhook, with the secret that its calls are signed with, and whether it was there before."""

    webhook: Webhook
    secret: str
    idempotent_hit: bool


class Moved(Shape):
    """Whether something changed now, and the webhook as it is."""

    changed: bool
    webhook: Webhook


class Delivery(Shape):
    """One event for one webhook, and what became of it."""

    id: UUID
    webhook_id: UUID
    tenant: str
    event_id: str
    kind: str
    state: DeliveryState
    attempts: int
    next_at: datetime
    ends_at: datetime
    leased_until: datetime | None
    created_at: datetime
    finished_at: datetime | None
    last_status: int | None
    last_error: str | None
    retry_of: UUID | None


def _shown(webhook: Known) -> dict[str, Any]:
    return webhook._asdict() | {"kinds": None if webhook.kinds is None else list(webhook.kinds)}


def _secret(added: Added) -> dict[str, Any]:
    return {"webhook": _shown(added.webhook), "secret": added.secret, "idempotent_hit": added.idempotent_hit}


async def _moved(visit: Visit, webhook: str, changed: bool) -> dict[str, Any]:
    return {"changed": changed, "webhook": _shown(await visit.doors.webhooks.get(webhook))}


@router.post(
    "/webhooks",
    status_code=201,
    response_model=Secret,
    responses=also(200, Secret),
    openapi_extra=takes(NewWebhook),
    summary="Add a webhook",
)
async def add(visit: Ruling, asked: Annotated[NewWebhook, asks(NewWebhook)], response: Response) -> dict[str, Any]:
    """Add a receiver of events. The same name with the same url and kinds is the same webhook (200)."""
    added = await visit.doors.webhooks.add(asked.url, kinds=asked.kinds, name=asked.name)
    if added.idempotent_hit:
        response.status_code = 200
    response.headers["Location"] = f"/v1/webhooks/{added.webhook.id}"
    return _secret(added)


@router.get("/webhooks", response_model=Page[Webhook], summary="List webhooks")
async def list_page(
    visit: Reading,
    state: Annotated[WebhookState | None, Query(description="Of this state only.")] = None,
    before: Before = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """List webhooks, newest first, a page at a time."""
    found = await visit.doors.webhooks.list(state=state, before=before, limit=limit)
    return page(found, limit=limit) | {"items": [_shown(each) for each in found]}


@router.get("/webhooks/{webhook}", response_model=Webhook, summary="Read a webhook")
async def get(visit: Reading, webhook: Named) -> dict[str, Any]:
    """Read a webhook, by its id or its name."""
    return _shown(await visit.doors.webhooks.get(webhook))


@router.get("/webhooks/{webhook}/secret", response_model=Secret, summary="Read a webhook's secret")
async def secret(visit: Ruling, webhook: Named) -> dict[str, Any]:
    """Read the secret that a webhook's calls are signed with."""
    door = visit.doors.webhooks
    return _secret(Added(await door.get(webhook), await door.secret(webhook), idempotent_hit=True))


@router.post("/webhooks/{webhook}/rotate", response_model=Secret, summary="Rotate a webhook's secret")
async def rotate(visit: Ruling, webhook: Named) -> dict[str, Any]:
    """Give a webhook a new secret. For a day its calls carry two signatures, of the new secret and of the old."""
    return _secret(await visit.doors.webhooks.rotate(webhook))


@router.post(
    "/webhooks/{webhook}/pause",
    response_model=Moved,
    openapi_extra=takes(Reason, required=False),
    summary="Pause a webhook",
)
async def pause(
    visit: Writing, webhook: Named, asked: Annotated[Reason, asks(Reason, required=False)]
) -> dict[str, Any]:
    """Send nothing to a webhook for now; what it is owed waits, not past its end."""
    return await _moved(visit, webhook, await visit.doors.webhooks.pause(webhook, reason=asked.reason))


@router.post(
    "/webhooks/{webhook}/resume",
    response_model=Moved,
    openapi_extra=takes(Reason, required=False),
    summary="Resume a webhook",
)
async def resume(
    visit: Writing, webhook: Named, asked: Annotated[Reason, asks(Reason, required=False)]
) -> dict[str, Any]:
    """Send to a paused webhook again."""
    return await _moved(visit, webhook, await visit.doors.webhooks.resume(webhook, reason=asked.reason))


@router.delete("/webhooks/{webhook}", response_model=Moved, summary="Remove a webhook")
async def remove(visit: Writing, webhook: Named) -> dict[str, Any]:
    """End a webhook for good; what it is owed is dead, and can be read."""
    found = await visit.doors.webhooks.get(webhook)
    return await _moved(visit, str(found.id), await visit.doors.webhooks.remove(found.id))


@router.get("/webhooks/{webhook}/deliveries", response_model=Page[Delivery], summary="List deliveries")
async def deliveries(
    visit: Reading,
    webhook: Named,
    state: Annotated[DeliveryState | None, Query(description="Of this state only.")] = None,
    before: Before = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """List the deliveries of a webhook, newest first, a page at a time."""
    return page(await visit.doors.webhooks.deliveries(webhook, state=state, before=before, limit=limit), limit=limit)


@router.post("/deliveries/{delivery_id}/retry", status_code=201, response_model=Delivery, summary="Retry a delivery")
async def retry(visit: Writing, delivery_id: UUID) -> Record:
    """Try a dead delivery anew, as a new one; a second call answers with the same."""
    return await visit.doors.webhooks.retry(delivery_id)
