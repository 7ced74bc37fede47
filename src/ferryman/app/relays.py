"""The doors to what goes out: what users reach as `app.webhooks` and `app.relays`, and what of it runs in a worker."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.app.tasks import Tasks
from ferryman.kernel import errors, events
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.events import Event
from ferryman.kernel.part import Part
from ferryman.kernel.pool import Database, Line, spoken
from ferryman.kernel.settings import Settings
from ferryman.relays import intake, webhook
from ferryman.relays.model import Address, Delivery, Standing, Webhook
from ferryman.relays.ports import Tellers, plain
from ferryman.relays.work.part import NatsPart, Terms, WebhookPart, nats_consumer, webhook_consumer
from ferryman.tasks.rules import envelope

RING = "webhooks"


class Added(NamedTuple):
    """A webhook with the secret that its calls are signed with."""

    webhook: Webhook
    secret: str
    idempotent_hit: bool = False


class Webhooks:
    """Add receivers of events, ask about them, pause and remove them, try dead deliveries anew."""

    def __init__(self, db: Database, doorbell: Doorbell, tasks: Tasks, *, settings: Settings) -> None:
        """Serve the tenant that the door to tasks serves."""
        self._db = db
        self._doorbell = doorbell
        self._tasks = tasks
        self._settings = settings.relays

    @property
    def tenant(self) -> str:
        """Whom the next call serves: inside a handler of this app the tenant of the running task, else the app's own."""
        return self._tasks.tenant

    def of(self, tenant: str) -> Webhooks:
        """Return the same door for one tenant, whatever task is running."""
        door = copy.copy(self)
        door._tasks = self._tasks.of(tenant)  # noqa: SLF001 - a copy of ours
        return door

    async def add(self, url: str, *, kinds: Iterable[str] | str | None = None, name: str | None = None) -> Added:
        """Tell a receiver of what happens from now on: everything, or only these kinds ("task", "task.failed").

        The secret is shown here and by `secret`; it is not stored. The same name with the same url and kinds is the same
        webhook.
        """
        key = self._key()
        with spoken():
            async with self._db.transaction() as tx:
                found, existed = await intake.add(
                    tx, url, tenant=self.tenant, consumer=webhook_consumer(self._settings), key_id=webhook.key_id(key),
                    name=name, kinds=kinds, allowed=[ip_network(each) for each in self._settings.private_networks],
                )  # fmt: skip
        return Added(found, self._secret(found), existed)

    async def secret(self, id: str | UUID) -> str:
        """Return the secret of a webhook."""
        self._key()
        return self._secret(await self.get(id))

    async def rotate(self, id: str | UUID) -> Added:
        """Give a webhook a new secret. For a day its calls carry two signatures, of the new secret and of the old."""
        key = self._key()
        with spoken():
            async with self._db.transaction() as tx:
                found = await intake.rotate(tx, id, tenant=self.tenant, key_id=webhook.key_id(key))
        return Added(found, self._secret(found))

    def _key(self) -> str:
        if self._settings.webhook_key is None:
            raise errors.SettingsInvalid(
                "relays.webhook_key is not set: it is what the secrets of webhooks are made of. Set"
                " FERRYMAN_RELAYS__WEBHOOK_KEY to 32 characters or more that nobody can guess (`openssl rand -hex 32`), the"
                " same here and for every worker.",
                field="relays.webhook_key",
            )
        return self._settings.webhook_key

    def _secret(self, found: Webhook) -> str:
        key = self._key()
        if webhook.key_id(key) != found.key_id:
            raise errors.SettingsInvalid(
                f"The webhook {found.name or found.id} was added with another relays.webhook_key; rotate its secret to use"
                " this one.",
                field="relays.webhook_key",
            )
        return webhook.secret_of(key, found.id, found.secret_version)

    async def get(self, id: str | UUID) -> Webhook:
        """Read one webhook, by id or name."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.get(tx, id, tenant=self.tenant)

    async def list(self, *, state: str | None = None, before: UUID | None = None, limit: int = 50) -> Sequence[Webhook]:
        """Read webhooks, newest first, a page at a time."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.list_page(tx, tenant=self.tenant, state=state, before=before, limit=limit)

    async def deliveries(
        self, id: str | UUID, *, state: str | None = None, before: UUID | None = None, limit: int = 50
    ) -> Sequence[Delivery]:
        """Read the deliveries of a webhook, newest first, a page at a time."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.deliveries_of(tx, id, tenant=self.tenant, state=state, before=before, limit=limit)

    async def pause(self, id: str | UUID, *, reason: str | None = None) -> bool:
        """Send nothing to a webhook for now; what it is owed waits, not past its end. False if it was not active."""
        with spoken():
            async with self._db.transaction() as tx:
                return (await intake.pause(tx, id, tenant=self.tenant, reason=reason))[1]

    async def resume(self, id: str | UUID, *, reason: str | None = None) -> bool:
        """Send to a paused webhook again; False if it was not paused."""
        with spoken():
            async with self._db.transaction() as tx:
                moved = (await intake.resume(tx, id, tenant=self.tenant, reason=reason))[1]
        self._doorbell.ring(RING)
        return moved

    async def remove(self, id: str | UUID, *, reason: str | None = None) -> bool:
        """End a webhook; what it is owed is dead. False if it had ended."""
        with spoken():
            async with self._db.transaction() as tx:
                return (await intake.remove(tx, id, tenant=self.tenant, reason=reason))[1]

    async def retry(self, delivery: str | UUID) -> Delivery:
        """Try a dead delivery anew, as a new one; a second call answers with the same."""
        id = intake.as_uuid(delivery)
        if id is None:
            raise errors.DeliveryNotFound(f"There is no delivery {delivery!r}: expected its id.", id=str(delivery))
        with spoken():
            async with self._db.transaction() as tx:
                tried, _existed = await intake.retry(tx, id, tenant=self.tenant, ends_after=self._settings.ends_after)
        self._doorbell.ring(RING)
        return tried


class Relays:
    """Ask how far the readers of the log are."""

    def __init__(self, db: Database) -> None:
        """Read by the pool of the app."""
        self._db = db

    async def status(self) -> Sequence[Standing]:
        """Read how far each reader of the log is from its end, and who holds it."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.standings(tx)

    async def forget(self, consumer: str) -> bool:
        """Remove a reader of the log that is gone for good: it no longer keeps old days from being dropped."""
        with spoken():
            async with self._db.transaction() as tx:
                return await events.forget(tx, consumer)


class TaskEvents:
    """How events of tasks and schedules are told."""

    def address(self, event: Event) -> Address:
        """Name the object by its id, and the state it is in now."""
        return Address(
            component=event.kind,
            target=str(event.subject),
            suffix=event.to_state or envelope.kind(event).partition("_")[2],
        )

    def envelope(self, event: Event) -> Mapping[str, Any]:
        """Tell the envelope that `ferryman events` shows."""
        return envelope.envelope(event)


class TurnEvents:
    """How events of agents are told (A15): the agent is what they stand under, in the channel of its turn."""

    def address(self, event: Event) -> Address:
        """Name the agent, and whether it is about its head, a step or the end of its turn."""
        _, _, suffix = event.kind.partition(".")
        channel = envelope.data(event).get("channel")
        return Address(component="agent", target=event.subject_name or "", suffix=suffix, channel=channel or "default")

    def envelope(self, event: Event) -> Mapping[str, Any]:
        """Tell the columns and the data; of an end also its status (A13)."""
        told = {**plain(event), "agent_id": event.subject_name, "agent_turn_id": str(event.subject)}
        return told | {"status": event.to_state} if event.kind == "agent.task" else told


TELLERS = Tellers(
    {kind: TaskEvents() for kind in (envelope.KIND, envelope.SCHEDULE)}
    | {kind: TurnEvents() for kind in ("agent.state", "agent.step", "agent.task")}
)


def parts(settings: Settings, doorbell: Doorbell, *, line: Callable[[], Line], terms: Terms) -> list[Part]:
    """Return what of the log goes out from this process: to NATS where that is asked for, to webhooks where there is a key."""
    asked = settings.relays
    made: list[Part] = []
    if asked.nats == "on" and settings.nats_url is not None:
        made.append(NatsPart(doorbell, TELLERS, settings.nats_url, line=line, settings=asked, terms=terms))
    if asked.webhooks == "on" and asked.webhook_key is not None:
        made.append(WebhookPart(doorbell, TELLERS, asked.webhook_key, line=line, settings=asked, terms=terms))
    return made


__all__ = ["TELLERS", "Added", "Relays", "TaskEvents", "Webhooks", "nats_consumer", "parts", "webhook_consumer"]
