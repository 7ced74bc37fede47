"""Running turns: every way a handler can end is an outcome (agents/ports.py, Runs)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.agents import rules
from ferryman.agents.model import CallRecord, CardRecord, End, Outcome, StepRecord, Taken
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import cards, steps, waits
from ferryman.agents.work.calls import Calls, Desk
from ferryman.agents.work.kept import Kept
from ferryman.agents.work.life import GONE, Life
from ferryman.agents.work.memory import Answer, Memory, Over
from ferryman.agents.work.profiles import Profile
from ferryman.agents.work.steps import Emits, Steps
from ferryman.agents.work.turn import Turn
from ferryman.kernel import errors, faults, payload
from ferryman.kernel.db import Tx
from ferryman.tasks.rules import ending

log = logging.getLogger("ferryman.agents")

HANDLER_FAILED, WALL_TIME, UNFIT = "handler_failed", "wall_time_exceeded", "result_not_serializable"


class Ready(NamedTuple):
    """What was read for a turn that was taken in hand: its handler if it is still here, else what a replay needs."""

    life: Life | None = None
    context: Sequence[CardRecord] = ()
    steps: Sequence[StepRecord] = ()
    calls: Sequence[CallRecord] = ()


class Runner:
    """Do the turns of the profiles of an app."""

    def __init__(self, desk: Desk, streams: Emits, *, owner: UUID, kept: Kept) -> None:
        """Run for one worker."""
        self._desk = desk
        self._profiles = desk.profiles.profiles
        self._streams = streams
        self._owner = owner
        self.kept = kept
        self._ready: dict[UUID, Ready] = {}
        self._names = sorted(self._profiles)

    @property
    def profiles(self) -> Sequence[str]:
        """The profiles whose turns are done here."""
        return self._names

    # Before

    async def prepare(self, tx: Tx, taken: Sequence[Taken]) -> None:
        """Read what a set of turns needs: contexts for those that begin, all for a replay; what goes on here needs nothing."""
        lives = {each.id: life for each in taken if (life := self._kept(each)) is not None}
        try:
            await self._read(tx, taken, lives)
        except BaseException:
            for life in lives.values():
                life.abandon()
            raise

    def _kept(self, taken: Taken) -> Life | None:
        """Return the handler of a turn that can go on here with the results it came with."""
        life = self.kept.take(taken.id, taken.epoch)
        if life is None or life.memory.awaits(taken.results):
            return life
        life.abandon()
        return None

    async def _read(self, tx: Tx, taken: Sequence[Taken], lives: dict[UUID, Life]) -> None:
        begun = [(each.tenant, each.id) for each in taken if each.was != "dispatched" and each.id not in lives]
        boxes = [(each.tenant, each.context_box_id) for each in taken if each.id not in lives]
        contexts = await cards.read(tx, boxes) if boxes else {}
        calls_of = _by_turn(await waits.load_calls(tx, begun) if begun else [])
        steps_of = _by_turn(await steps.load_steps(tx, begun) if begun else [])
        for each in taken:
            self._ready[each.id] = Ready(
                lives.get(each.id),
                contexts.get(each.context_box_id, ()),
                steps_of.get(each.id, ()),
                calls_of.get(each.id, ()),
            )

    # Running

    async def run(self, taken: Taken) -> Outcome | None:
        """Do a turn until it ends or waits; None when the claim was lost meanwhile."""
        faults.point("handler.started")
        ready = self._ready.pop(taken.id, None)
        if ready is None:
            return None  # given up since it was taken in hand, or what it needs could not be read
        profile = self._profiles[taken.profile]
        left = _left(taken, profile)
        life = ready.life
        memory = Memory(taken, steps=ready.steps, calls=ready.calls) if life is None else life.memory
        if life is not None:
            memory.resume(taken)
        if (said := memory.terminal()) is not None:
            if life is not None:
                life.abandon()
            return self._terminated(taken, said)
        life = life or self._begin(memory, profile, ready, left)
        try:
            in_time = await life.happens(left)
        except asyncio.CancelledError:
            # By the pump: the lease is gone, the turn was stopped or is handed back; nothing more is owed.
            life.abandon()
            return None
        outcome = self._outcome(taken, life, in_time=in_time)
        faults.point("handler.returned")
        return outcome

    def _begin(self, memory: Memory, profile: Profile, ready: Ready, left: float) -> Life:
        desk = self._desk
        doing = Steps(memory, profile, desk.scribe, self._streams, limit=desk.limit)
        ends = asyncio.get_running_loop().time() + left
        calls = Calls(memory, profile, doing, desk, ends=ends)
        turn = Turn(memory, ready.context, steps=doing, calls=calls)
        return Life(memory, partial(profile.function, turn), name=profile.name)

    def _outcome(self, taken: Taken, life: Life, *, in_time: bool) -> Outcome | None:
        memory = life.memory
        over = memory.over
        if over is not None:
            life.abandon()
            return self._over(taken, over)
        if not in_time:
            life.abandon()
            return self._end(taken, TurnStatus.PARTIAL, code=WALL_TIME, error="The wall time of the turn is over.")
        if not life.task.done() and memory.waiting:
            self.kept.put(life)
            return rules.suspension_of(taken, memory.calls, owner=self._owner)
        return self._returned(taken, life) if life.error is None else self._raised(taken, life.error)

    def _returned(self, taken: Taken, life: Life) -> Outcome:
        try:
            text = payload.encode(life.value, limit=self._desk.limit, error=errors.TaskInvalidResult)
        except errors.TaskInvalidResult as error:
            message = f"What the handler returned cannot be stored: {error.message}"
            return self._end(taken, TurnStatus.FAILED, code=UNFIT, error=message)
        return self._end(taken, TurnStatus.SUCCESS, payload.decode(text))

    def _raised(self, taken: Taken, error: BaseException) -> Outcome:
        """Whatever came out of the handler's own code is its failure; so is what cannot even be told."""
        code = error.code if isinstance(error, errors.ToolFailed | errors.StepFailed) else HANDLER_FAILED
        try:
            message = ending.said(error)
        except BaseException:  # the turn must end, whatever is wrong with what was raised
            log.exception("what a handler raised could not be read", extra={"turn": str(taken.id)})
            message = ending.UNREADABLE
        log.debug("a handler raised", exc_info=error, extra={"turn": str(taken.id), "profile": taken.profile})
        return self._end(taken, TurnStatus.FAILED, code=code.lower(), error=message)

    def _over(self, taken: Taken, over: Over) -> Outcome | None:
        if over.code in (GONE, errors.TurnLost.code):
            return None
        return self._end(taken, over.status, over.content, code=over.code, error=over.message)

    def _terminated(self, taken: Taken, answer: Answer) -> Outcome:
        """End a turn as a tool's result says (A10)."""
        status = TurnStatus(answer.status)
        error = answer.error or {}
        return self._end(
            taken,
            status,
            answer.result,
            code=error.get("code"),
            error=error.get("message"),
            result_card=answer.card,
        )

    def _end(self, taken: Taken, status: TurnStatus, content: Any = None, **more: Any) -> End:
        error = more.pop("error", None)
        told = None if error is None else ending.readable(str(error))
        return rules.end_of(taken, status, content, owner=self._owner, error=told, **more)

    # After

    def forget(self, ids: Collection[UUID]) -> None:
        """End the handlers of turns that are over, or another's, or were taken in hand and never run."""
        self.kept.drop(ids)
        for id in ids:
            ready = self._ready.pop(id, None)
            if ready is not None and ready.life is not None:
                ready.life.abandon()

    def close(self) -> None:
        """End every handler that waits."""
        self.kept.close()
        self.forget(list(self._ready))


def _left(taken: Taken, profile: Profile) -> float:
    """Return how many seconds of wall time a turn has left: its own, or its profile's if that is less."""
    own = profile.limits.wall_time
    if own is None:
        return taken.seconds_left
    whole = (taken.turn_deadline - taken.started_at).total_seconds()
    return min(taken.seconds_left, own.total_seconds() - (whole - taken.seconds_left))


def _by_turn(records: Sequence[Any]) -> dict[UUID, list[Any]]:
    found: dict[UUID, list[Any]] = {}
    for each in records:
        found.setdefault(each.agent_turn_id, []).append(each)
    return found
