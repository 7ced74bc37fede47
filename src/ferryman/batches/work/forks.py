"""Forks that come from turns: a batch as a call (A9), made in the transaction that suspends the turn."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.intake import report
from ferryman.agents.model import Call, Report, Suspension, Taken
from ferryman.batches import rules
from ferryman.batches.intake.fork import Policy, Profile, Wanted, fork
from ferryman.batches.model import Caller, Forked, Refused, Terms
from ferryman.kernel import ids
from ferryman.kernel.db import Tx

PENDING = "batches"  # the bell for whoever dispatches
# A parent never gives up before its batch does, and the batch's end has to come through (A11).
MARGIN = timedelta(seconds=60)


class Forking:
    """What a call of fork_join sets going (agents/ports.py, Starts)."""

    __slots__ = ("heads", "profiles", "terms", "wanted")

    def __init__(self, wanted: Wanted, terms: Terms, *, profiles: Mapping[str, Profile]) -> None:
        """Fork for this caller; no head is locked by it but its own, and its agents' are new or left to the dispatch."""
        self.wanted = wanted
        self.terms = terms
        self.profiles = profiles
        self.heads: Collection[tuple[str, str]] = ()

    @classmethod
    async def start(
        cls,
        tx: Tx,
        calls: Sequence[tuple[Suspension, Call]],
        *,
        prepared: bool,
        parties: Parties,
        after: Aftermath,
    ) -> None:
        """Fork when the turns are suspended, not before: a turn that is not its holder's any more makes nothing."""
        if not prepared:
            return
        some: Sequence[Forking] = [call.start for _, call in calls]
        answers = await fork(tx, [each.wanted for each in some], some[0].terms, profiles=some[0].profiles)
        answered = list(zip(calls, answers, strict=True))
        if any(isinstance(answer, Forked) for answer in answers):
            after.bells.setdefault(PENDING, set())
        refused = [_refusal(*call, answer) for call, answer in answered if isinstance(answer, Refused)]
        if refused:
            await report(tx, refused, parties, after=after)


def batch_of(tool_call_id: str) -> UUID:
    """Return the batch that a call leads to: the same however often it is made."""
    return UUID(bytes=hashlib.blake2b(f"batch:{tool_call_id}".encode(), digest_size=16).digest(), version=5)


def _refusal(suspension: Suspension, call: Call, answer: Refused) -> Report:
    error = {"code": answer.code, "message": answer.reason, "source": rules.AUTHOR}
    if answer.field is not None:
        error["detail"] = {"field": answer.field}  # type: ignore[assignment]
    return Report(
        tenant=suspension.tenant,
        tool_call_id=call.tool_call_id,
        id=ids.new_id(),
        card_id=ids.new_id(),
        content={"status": "failed", "error": error},
        author=rules.AUTHOR,
    )


class Forks:
    """Reads what turns ask for (agents/work/calls.py, Forks)."""

    def __init__(self, terms: Terms, profiles: Mapping[str, Profile]) -> None:
        """Serve the turns of one app."""
        self._terms = terms
        self._profiles = profiles

    def __call__(
        self, taken: Taken, tool_call_id: str, arguments: Mapping[str, Any], *, policy: Policy, step: UUID | None
    ) -> tuple[Forking, timedelta]:
        """Return what the suspension sets going, and how long it is waited for; what is wrong is raised."""
        asked = rules.read(arguments, self._terms)
        caller = Caller(
            tenant=taken.tenant,
            agent_id=taken.agent_id,
            turn=taken.id,
            epoch=taken.epoch,
            step=step,
            tool_call_id=tool_call_id,
            channel=taken.channel,
            depth=taken.depth,
            context_box=taken.context_box_id,
            output_box=taken.output_box_id,
            budget=taken.budget_id,
            traceparent=taken.traceparent,
        )
        # A repeat of the call is the same batch.
        wanted = Wanted(asked, caller, batch_of(tool_call_id), policy)
        return Forking(wanted, self._terms, profiles=self._profiles), asked.deadline + MARGIN
