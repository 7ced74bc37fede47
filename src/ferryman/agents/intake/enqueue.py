"""Turns are asked for (A3, A5, A7, A20): heads locked, messages stored, and the next turn of each idle agent dispatched."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ferryman.agents import rules
from ferryman.agents.ends import Aftermath, Parties, dispatch
from ferryman.agents.model import Accepted, Answer, Order, Rejected, Stop
from ferryman.agents.states import IDLE
from ferryman.agents.store import cards, heads, inbox
from ferryman.kernel import ids
from ferryman.kernel.db import Row, Tx


async def enqueue(tx: Tx, orders: Sequence[Order], parties: Parties, *, after: Aftermath) -> list[Answer]:
    """Take orders in, and answer for each: accepted (with an epoch if it was dispatched at once), busy, or rejected.

    A repeat of a turn is accepted and changes nothing. An agent that is to be interrupted gets a stop, which a worker carries
    out after the commit; the new turn waits for that like any other.
    """
    answers: dict[int, Answer] = {}
    for place, order in enumerate(orders):
        refused = rules.refusal(order, parties.terms)
        if refused is not None:
            answers[place] = refused
    sound = {place: order for place, order in enumerate(orders) if place not in answers}
    await _check_boxes(tx, sound, answers)
    sound = {place: order for place, order in sound.items() if place not in answers}
    agents = {(order.tenant, order.agent_id) for order in sound.values()}
    known = await heads.lock(tx, agents) if agents else {}
    merges = await _place(tx, sound, known, answers, after=after)
    accepted = {place: order for place, order in sound.items() if _new(answers[place])}
    if accepted:
        # Of two that ask for one turn the first does; the other meets it, like one that comes later.
        firsts = {order.turn: place for place, order in reversed(accepted.items())}
        born = await inbox.enqueue(
            tx, [accepted[place] for place in firsts.values()], queued_for=parties.terms.queued_for
        )
        wanted = [each for each in merges if each[1] in born]
        if wanted:
            await inbox.merge(tx, wanted)
        idle = {agent for agent in agents if known.get(agent) is not None and known[agent]["status"] == IDLE}
        epochs = await dispatch(tx, idle, parties, after=after) if idle else {}
        met = {
            place: order for place, order in accepted.items() if order.turn not in born or firsts[order.turn] != place
        }
        answers |= {place: Accepted(order.turn, epochs.get(order.turn)) for place, order in accepted.items()}
        answers |= {place: Rejected("turn_conflict", f"{each.turn} is another's turn.") for place, each in met.items()}
        if met:
            await _meet(tx, met, answers)
    return [answers[place] for place in range(len(orders))]


def _new(answer: Answer) -> bool:
    return isinstance(answer, Accepted) and answer.created


async def _meet(tx: Tx, orders: dict[int, Order], answers: dict[int, Answer]) -> None:
    """Answer those whose turns are there: repeats, which change nothing, and conflicts, which name the fields (K11)."""
    for place, met in (await inbox.met(tx, orders)).items():
        turn, differs = orders[place].turn, met.differs
        if differs:
            message = f"The turn {turn} is there, and differs in {', '.join(differs)}."
            answers[place] = Rejected("turn_conflict", message, tuple(differs))
        else:
            answers[place] = Accepted(turn, met.turn_epoch, created=False)


async def _check_boxes(tx: Tx, orders: dict[int, Order], answers: dict[int, Answer]) -> None:
    """Refuse boxes that are not the tenant's own, and an output box that another turn writes into (A8, K12)."""
    given = {(order.tenant, box) for order in orders.values() for box in (order.context_box, order.output_box) if box}
    known = await cards.known(tx, given) if given else {}
    for place, order in orders.items():
        for box in (order.context_box, order.output_box):
            if box is not None and box not in known:
                answers[place] = Rejected("box_unknown", f"There is no box {box}.")
        # The turn itself may have it: this order is a repeat then.
        taken = order.output_box is not None and known.get(order.output_box, False)
        if taken and not await inbox.get(tx, [order.turn], tenant=order.tenant):
            answers[place] = Rejected("output_box_taken", f"Another turn writes into the box {order.output_box}.")


async def _place(
    tx: Tx,
    orders: dict[int, Order],
    known: dict[tuple[str, str], Row],
    answers: dict[int, Answer],
    *,
    after: Aftermath,
) -> list[tuple[str, UUID, UUID]]:
    """Decide for each order by what its agent does; answer with those that go along with another turn."""
    picky = {agent for agent, head in known.items() if head["when_busy"] != "enqueue"}
    picky |= {(each.tenant, each.agent_id) for each in orders.values() if each.message_type == "ui_action"}
    line = await inbox.line(tx, picky) if picky else {}
    if picky:
        # A repeat is no second message: it is not refused because its own turn is under way, and does not interrupt it.
        await _meet(tx, {n: order for n, order in orders.items() if (order.tenant, order.agent_id) in picky}, answers)
    merges: list[tuple[str, UUID, UUID]] = []
    stops: dict[UUID, Stop] = {}
    placed: set[UUID] = set()
    for place, order in orders.items():
        agent = (order.tenant, order.agent_id)
        if order.turn in placed:
            answers.setdefault(place, Accepted(order.turn))
        if place in answers:
            continue
        head = known.get(agent)
        if head is None:
            answers[place] = Rejected("agent_unknown", f"There is no agent {order.agent_id}.")
            continue
        word = rules.standing(order, when_busy=head["when_busy"], busy=head["status"] != IDLE, waiting=line.get(agent))
        if word == "merge":
            merges.append((order.tenant, order.turn, line[agent]))
        elif word == "interrupt":
            turn = head["active_agent_turn_id"]
            stops[turn] = Stop(
                tenant=order.tenant, agent_id=order.agent_id, turn=turn, id=ids.new_id(), reason="interrupted",
                source=order.source,
            )  # fmt: skip
        answers[place] = Accepted(order.turn) if isinstance(word, str) else word
        if isinstance(answers[place], Accepted):
            placed.add(order.turn)
            line.setdefault(agent, order.turn)
    if stops:
        await inbox.stop(tx, list(stops.values()))
        after.stops = True
    return merges
