"""R3: each check of chaos says nothing of a world in which all went well, and speaks when one thing in it is spoilt."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from chaos import checker
from chaos.checker import alone, batches, claims, domains, ends
from chaos.checker import line as standing
from ferryman.testing import Cluster
from tests.chaos.world import Scene, World, made

ROOT = Path(__file__).resolve().parents[2]
# An agent never ends; waits and resumes end with their turns and are told with them; nobody has a webhook in a run.
APART = {"agent_state_head", "turn_waiting_tools", "turn_resume_ledger", "webhooks", "webhook_deliveries"}
EVENT = "insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name)"
A_TASK = "(select id from ferryman.tasks where name = 'job' and state = 'succeeded' order by id limit 1)"
A_FIRING = "(select id from ferryman.tasks where schedule is not null order by fire_time {} limit 1)"


@pytest.fixture(scope="module")
def world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """All went well here; made once, for nothing that a test does to it stays."""
    url = asyncio.run(cluster.lend())
    yield asyncio.run(made(url, tmp_path_factory.mktemp("histories")))
    asyncio.run(cluster.take_back(url))


class Plant(NamedTuple):
    """One thing that is wrong, the check that must speak, and what it must say."""

    check: str
    says: str
    spoil: Callable[[Scene], object]


def rows(statement: str) -> Callable[[Scene], object]:
    """Spoil rows."""
    return lambda scene: scene.run(statement)


def forget(what: str, **having: object) -> Callable[[Scene], object]:
    """Spoil the histories: what a line says is not there, nor is it said by another claim of the same."""

    def spoil(scene: Scene) -> None:
        gone = scene.alike(scene.line(what, **having), **having)
        scene.lines[:] = [line for line in scene.lines if line not in gone]

    return spoil


def add(what: str, **more: object) -> Callable[[Scene], object]:
    """Spoil the histories: a line is there that should not be."""
    return lambda scene: scene.lines.append({"what": what, "at": scene.lines[-1]["at"], "pid": 1, "who": "x", **more})


def say(text: str) -> Callable[[Scene], object]:
    """Let a process say something."""
    return lambda scene: scene.outputs.update({"worker-0.0001": text})


def second_end(domain: ends.Domain) -> Callable[[Scene], object]:
    """Let the log tell the end of one row twice."""
    return rows(
        f"{EVENT} select now(), id, 'default', '{domain.kind}', 'x', {domain.state}, '' from ferryman.{domain.table}"
        f" where {domain.which} order by id limit 1"
    )


def no_end(domain: ends.Domain) -> Callable[[Scene], object]:
    """Let the log not tell the end of one row."""
    return rows(
        f"delete from ferryman.events where kind = '{domain.kind}' and to_state = any('{{{','.join(domain.ends)}}}')"
        f" and subject = (select id from ferryman.{domain.table} where {domain.which} order by id limit 1)"
    )


def other_end(domain: ends.Domain) -> Callable[[Scene], object]:
    """Let the log tell another end of one row than it has."""
    return rows(
        f"update ferryman.events set to_state = 'otherwise' where kind = '{domain.kind}'"
        f" and to_state = any('{{{','.join(domain.ends)}}}')"
        f" and subject = (select id from ferryman.{domain.table} where {domain.which} order by id limit 1)"
    )


def gone(domain: ends.Domain) -> Callable[[Scene], object]:
    """Lose one row."""
    return rows(
        f"delete from ferryman.{domain.table}"
        f" where id = (select id from ferryman.{domain.table} where {domain.which} order by id limit 1)"
    )


def unended(domain: ends.Domain) -> Callable[[Scene], object]:
    """Let one row live on; what else must be true of rows in that state is not looked at here."""

    def spoil(scene: Scene) -> None:
        scene.unguard(domain.table)
        scene.run(
            f"update ferryman.{domain.table} set {domain.state} = 'under way'"
            f" where id = (select id from ferryman.{domain.table} where {domain.which} order by id limit 1)"
        )

    return spoil


def a_batch(act: str) -> Callable[[Scene], str]:
    """Name a batch by what was asked for."""
    return lambda scene: str(scene.line("ok", act=act)["batch"])


def to(which: Callable[[Scene], str], status: str, tasks: str) -> Callable[[Scene], object]:
    """Let a batch, and all tasks of it, have ended otherwise."""

    def spoil(scene: Scene) -> None:
        scene.unguard("pmo_batches")
        scene.unguard("pmo_batch_tasks")
        scene.run("update ferryman.pmo_batches set status = %s where id = %s", status, which(scene))
        scene.run("update ferryman.pmo_batch_tasks set status = %s where batch_id = %s", tasks, which(scene))

    return spoil


def unasked(scene: Scene) -> None:
    """Let nobody have asked for a batch."""
    scene.lines[:] = [line for line in scene.lines if line.get("act") != "batch"]


def turn_of_canceled(status: str, code: str) -> Callable[[Scene], object]:
    """Let a task whose turn was done be one that was stopped, and its turn have ended like this."""

    def spoil(scene: Scene) -> None:
        to(a_batch("wreck"), "failed", "canceled")(scene)
        scene.unguard("agent_inbox")
        scene.run(
            "update ferryman.agent_inbox set turn_status = %s, error_code = %s"
            " where id in (select agent_turn_id from ferryman.pmo_batch_tasks where batch_id = %s)",
            status, code, a_batch("wreck")(scene),
        )  # fmt: skip

    return spoil


def recalled(change: str) -> Callable[[Scene], object]:
    """Let the command that was cancelled be otherwise."""

    def spoil(scene: Scene) -> None:
        scene.unguard("command_inbox")
        scene.run(
            f"update ferryman.command_inbox set {change} where id = %s", scene.line("ok", act="recall")["command"]
        )

    return spoil


def leg_of_recalled(leg: str, status: str) -> Callable[[Scene], object]:
    """Let the command that was cancelled have had a capability at work that ended like this."""

    def spoil(scene: Scene) -> None:
        scene.unguard("async_tasks")
        command = scene.line("ok", act="recall")["command"]
        scene.run(
            "update ferryman.async_tasks set triggered_by_command_id = %s, task_type = %s, status = %s"
            " where id = (select id from ferryman.async_tasks limit 1)", command, leg, status,
        )  # fmt: skip

    return spoil


def cancelled_unasked(scene: Scene) -> None:
    """Cancel what was cancelled, but let nobody have asked."""
    task = scene.line("invoke", act="cancel")["arguments"]["task"]
    scene.lines[:] = [line for line in scene.lines if line.get("act") != "cancel"]
    assert scene.one(f"select state from ferryman.tasks where id = '{task}'")["state"] == "cancelled"


def in_vain(act: str, kind: str) -> Callable[[Scene], object]:
    """Let a cancel have done nothing, and what it was about have ended an hour after its answer."""

    def spoil(scene: Scene) -> None:
        line = scene.line("ok", act=act)
        line.update(dict.fromkeys(("cancelled", "stopped"), False))
        id = line.get(kind) or scene.line("invoke", act=act)["arguments"]["task"]
        scene.run(
            "update ferryman.events set at = at + interval '1 h' where kind = %s and subject::text = %s and to_state = any(%s)",
            kind, id, [end for domain in ends.DOMAINS for end in domain.ends],
        )  # fmt: skip

    return spoil


def ignored(scene: Scene) -> None:
    """Let a cancel have done nothing, and the task live on."""
    scene.line("ok", act="cancel").update(cancelled=[])
    scene.run("delete from ferryman.events where kind = 'task' and to_state = 'cancelled'")


def outlived(parent: str, child: str) -> Callable[[Scene], object]:
    """Let the log tell the ends of what was born of something after the end of that."""
    return rows(
        f"update ferryman.events set id = default where kind = '{child}' and to_state in ('succeeded', 'success', 'COMPLETED')"
        f" and subject in (select child::uuid from ({ends.FAMILIES[parent, child]}) as family)"
    )


def mute(scene: Scene) -> None:
    """Let a schedule cease to fire long before it was ended."""
    scene.run("update ferryman.schedules set ended_at = ended_at + interval '5 s'")


def repeat_a_key(scene: Scene) -> None:
    """Give two tasks one key."""
    scene.connection.execute("drop index ferryman.tasks_idempotency")
    scene.run("update ferryman.tasks set idempotency_key = 'k' where id in (select id from ferryman.tasks limit 2)")


def busy(scene: Scene) -> None:
    """Let agents never have come to rest."""
    scene.unguard("agent_state_head")
    scene.run("update ferryman.agent_state_head set status = 'running'")


def again(what: str, **changes: object) -> Callable[[Scene], object]:
    """Spoil the histories: a line is there once more, changed."""
    return lambda scene: scene.lines.append({**scene.line(what), **changes})


def idle(scene: Scene) -> None:
    """Let a worker that is awake begin nothing for twenty seconds, beside one that begins many of what stands in line."""
    at = float(scene.lines[-1]["at"])
    for pid in (1, 2):
        scene.lines.append({"what": "born", "at": at, "pid": pid, "who": f"worker-{pid}.0001", "role": "worker"})
        scene.lines.append({"what": "working", "at": at, "pid": pid, "who": f"worker-{pid}.0001"})
    for n in range(200):
        now = {"at": at + n / 10, "who": "x"}
        scene.lines += [
            {**now, "what": "ties", "pid": 2, "task": str(n), "epoch": 1},
            {**now, "what": "line", "due": 90},
        ]


def left_alone(role: str, *ceased: str, reaped: bool = True, fired: bool = True) -> Callable[[Scene], object]:
    """Let one have been left alone from the first firing on, with something of each to do, and not have done some of it."""

    def spoil(scene: Scene) -> None:
        first = scene.one("select min(fire_time) as at from ferryman.tasks where schedule is not null")[
            "at"
        ].timestamp()
        clock = scene.line("clock")
        since = first - 0.001 - (clock["wall"] - clock["at"])
        scene.lines[:] = [line for line in scene.lines if line["what"] not in ceased]
        pid = scene.line("born")["pid"]
        for what in {"start", "sails", "asked"} - set(ceased):
            scene.lines.append({**scene.line(what), "at": since + 1.0})
        alone = {"name": f"{role}-9.0001", "role": role, "since": since, "held": 1, "pid": 1}
        scene.lines.append({"what": "alone", "at": since + 60.0, "who": "storm", "child": pid, **alone})
        if reaped:
            scene.run(
                "insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_message)"
                f" select {{0}}, id, 'default', 'task', 'ready', 'running', name, null from ferryman.tasks where id = {A_TASK}"
                f" union all select {{0}}, id, 'default', 'task', 'running', 'ready', name, 'lease_expired' from ferryman.tasks"
                f" where id = {A_TASK}".format(f"to_timestamp({first + 5.0})")
            )
        if not fired:
            scene.run("update ferryman.events set at = at + interval '1 h' where kind = 'task' and from_state is null")

    return spoil


def of_a_turn(change: str) -> Callable[[Scene], object]:
    """Spoil what the log says of the turn that an agent was asked for."""
    return lambda scene: scene.run(
        f"update ferryman.events set {change} and subject::text = %s", scene.line("ok", act="turn")["turn"]
    )


def delivered(what: str) -> Callable[[Scene], object]:
    """Let the turn that an agent was asked for have delivered something else."""
    return lambda scene: scene.run(
        f"update ferryman.cards set content = {what} where id = (select deliverable_card_id from ferryman.agent_inbox"
        " where id::text = %s)", scene.line("ok", act="turn")["turn"],
    )  # fmt: skip


def lapsed(scene: Scene) -> None:
    """Let a turn of a batch have been taken from its holder, for no reason, and been begun anew."""
    turn = scene.line("stroke")["turn"]
    scene.run(
        "update ferryman.events set reason_code = %s"
        " where kind = 'agent.state' and from_state = 'running' and subject::text = %s",
        claims.LAPSED, turn,
    )  # fmt: skip
    scene.run(
        "insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code)"
        " select max(at), subject, 'default', kind, 'running', 'running', '', 'taken_over' from ferryman.events"
        " where kind = 'agent.state' and subject::text = %s group by subject, kind", turn,
    )  # fmt: skip
    add("stroke", turn=turn, epoch=2)(scene)


def lapsed_after_an_outage(scene: Scene) -> None:
    """Let it have been taken after an outage that was long enough for a grace."""
    lapsed(scene)
    at = scene.line("stroke")["at"]
    add("back", at=at, killed=at - 10.0)(scene)


def passed_over(seconds: float, others: int = 0) -> Callable[[Scene], object]:
    """Let a task have stood in line for so long, and so many others have come and been claimed meanwhile."""

    def spoil(scene: Scene) -> None:
        task = scene.one(f"select id from {A_TASK} as one (id)")["id"]
        for _ in range(others):
            scene.run(
                "with born as (insert into ferryman.tasks select (jsonb_populate_record(null::ferryman.tasks, to_jsonb(task)"
                " || jsonb_build_object('id', gen_random_uuid(), 'task_id', gen_random_uuid(), 'idempotency_key', null))).*"
                " from ferryman.tasks as task where id = %s returning id)"
                f" {EVENT} select at + interval '1 s', born.id, tenant, kind, from_state, to_state, ''"
                " from ferryman.events, born where subject = %s and (from_state is null or to_state = 'running')",
                task, task,
            )  # fmt: skip
        scene.run(
            "update ferryman.events set at = (select min(at) from ferryman.events where subject = %s)"
            " + make_interval(secs => %s) where subject = %s and from_state is not null", task, seconds, task,
        )  # fmt: skip

    return spoil


ALONE = "who_is_left_alone_does_all_its_part"
A_CHILD = "(select agent_turn_id from ferryman.pmo_batch_tasks where status = 'success' order by id limit 1)"
TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in work\n    go()\n'
CHAIN = "\nThe above exception was the direct cause of the following exception:\n\n"
AWAY = "ferryman.kernel.errors.DatabaseUnavailable: PostgreSQL cannot be used now.\n"

PLANTS = [
    *(Plant("one_end_for_each_row", f"the {each.kind} ", second_end(each)) for each in ends.DOMAINS),
    *(Plant("one_end_for_each_row", f"the {each.kind} ", no_end(each)) for each in ends.DOMAINS),
    *(Plant("one_end_for_each_row", "'otherwise'", other_end(each)) for each in ends.DOMAINS),
    *(Plant("nothing_is_gone", f"the {each.kind} ", gone(each)) for each in ends.DOMAINS),
    *(Plant("nothing_lives_on", f"the {each.kind} ", unended(each)) for each in ends.DOMAINS),
    Plant("acknowledged_ended_once", "the task ", no_end(ends.DOMAINS[0])),
    *(Plant("acknowledged_ended_once", f"the {kind} ", lambda scene, kind=kind, name=name: scene.run(  # type: ignore[misc]
        "delete from ferryman.events where kind = %s and subject::text = %s and to_state = any(%s)",
        kind, next(line[name] for line in scene.lines if line["what"] == "ok" and name in line),
        [end for domain in ends.DOMAINS for end in domain.ends],
    )) for name, kind in ends.ACKNOWLEDGED.items()),
    Plant("acknowledged_ended_once", "has 2 ends in the log", second_end(ends.DOMAINS[0])),
    *(Plant("a_cancel_that_did_nothing_came_too_late", f"the {kind} ", in_vain(act, kind))
      for act, (kind, _) in ends.CANCELS.items()),
    Plant("a_cancel_that_did_nothing_came_too_late", "and it never ended", ignored),
    *(Plant("nothing_outlives_what_bore_it", f"the {of} ", outlived(kind, of)) for kind, of in ends.FAMILIES),
    Plant("acknowledged_is_there", "acknowledged and gone", rows(f"delete from ferryman.tasks where id = {A_TASK}")),
    Plant("acknowledged_is_there", "and is other", rows(
        f"update ferryman.tasks set idempotency_key = 'other' where id = {A_TASK}"
    )),
    Plant("one_row_for_each_key", "made 2 tasks", repeat_a_key),
    Plant("acknowledged_is_there", "without a key, and is other", lambda scene: scene.run(
        "update ferryman.tasks set idempotency_key = 'other' where id::text = %s",
        next(iter(scene.line("ok", act="bare")["tasks"].values())),
    )),
    Plant("one_row_at_most_for_each_bare_create", "0 times and made 1", forget("invoke", act="bare")),
    Plant("what_was_asked_for_succeeded", "failed: lost", rows(
        f"update ferryman.tasks set state = 'failed', last_error_code = 'lost' where id = {A_TASK}"
    )),
    Plant("what_was_asked_for_succeeded", "nobody had asked for it", cancelled_unasked),
    Plant("what_was_asked_for_succeeded", "nobody had asked for it", rows(
        f"update ferryman.tasks set state = 'cancelled' where id = {A_TASK}"
    )),
    Plant("what_was_asked_for_succeeded", "was cancelled, and is succeeded", rows(
        "update ferryman.tasks set state = 'succeeded' where state = 'cancelled'"
    )),
    Plant("each_claim_has_its_epoch", "has epoch 9", rows(f"update ferryman.tasks set epoch = 9 where id = {A_TASK}")),
    *(Plant("one_holder_for_each_claim", " by [1, ", again(what, pid=1)) for what in claims.OF_TASKS),
    *(Plant("one_holder_for_each_claim", "was started 2 times", again(what)) for what in claims.OF_TASKS),
    *(Plant("one_holder_for_each_claim", "which it never had", again(what, epoch=9)) for what in claims.OF_TASKS),
    *(Plant("success_was_earned", "nobody began it in that", forget(what)) for what in claims.OF_TASKS),
    Plant("success_was_earned", "nobody came to its end in that", forget("effect")),
    Plant("success_was_earned", "keeps 'another'", rows(
        f"update ferryman.tasks set result = '\"another\"' where id = {A_TASK}"
    )),
    # Another claim settled it than the one that said this.
    Plant("success_was_earned", " of claim ", rows(f"update ferryman.tasks set epoch = epoch + 1 where id = {A_TASK}")),
    Plant("success_was_earned", "without its effect", forget("effect")),
    Plant("own_rows_and_tasks_go_together", "the row is not there, the task is there", rows("delete from public.ledger")),
    Plant("own_rows_and_tasks_go_together", "the row is not there, the task is there", rows("delete from public.owed")),
    Plant("own_rows_and_tasks_go_together", "was told 2 times", rows("update public.owed set ends = 2")),
    Plant("steps_are_remembered", "which no run said", forget("ran", step="load")),
    Plant("steps_are_remembered", "when the next had begun", rows(
        "update ferryman.task_steps set at = at + interval '1 h' where name = 'load'"
    )),
    Plant("steps_are_remembered", "its steps say", rows("delete from ferryman.task_steps where name = 'unload'")),
    Plant("steps_are_remembered", "its steps say", rows(
        "update ferryman.tasks set epoch = epoch + 1 where id in (select child from ferryman.task_steps)"
    )),
    Plant("firings_follow_each_other", "and then at", rows(
        f"update ferryman.tasks set fire_time = fire_time + interval '1 ms' where id = {A_FIRING.format('desc')}"
    )),
    Plant("firings_follow_each_other", "and tells of", rows(
        f"delete from ferryman.tasks where id = {A_FIRING.format('desc')}"
    )),
    Plant("firings_follow_each_other", "1 missed", rows("update ferryman.schedules set missed = 1")),
    Plant("firings_follow_each_other", "never fired", rows("delete from ferryman.tasks where schedule is not null")),
    Plant("firings_follow_each_other", "for the first time", rows(
        "update ferryman.schedules set created_at = created_at - interval '5 s'"
    )),
    Plant("firings_follow_each_other", "for the last time", mute),
    Plant("firings_follow_each_other", "there was no schedule", rows("delete from ferryman.schedules")),
    Plant("the_log_is_read_whole", "missed 1 events", rows(
        "delete from public.witnessed where event = (select max(event) from public.witnessed)"
    )),
    Plant("the_log_is_read_whole", "out of order", rows(
        "insert into public.witnessed (event) overriding system value select 0"
    )),
    Plant("the_log_is_read_whole", "the reader was told", add("read", first=1, last=2, count=2)),
    Plant("turns_are_delivered", "was acknowledged and is gone", rows("delete from ferryman.agent_inbox")),
    Plant("turns_are_delivered", "ended as failed", rows(
        "update ferryman.agent_inbox set turn_status = 'failed' where message_type = 'turn'"
    )),
    Plant("turns_are_delivered", "which no run of it said", forget("ran", step="look")),
    Plant("turns_are_delivered", "which no run of it said", lambda scene: [
        line.update(epoch=9) for line in scene.alike(scene.line("ran", step="steer"), step="steer")
    ]),
    # Of what a step said in two runs one was kept; the other, of somebody whose time was over, was delivered.
    Plant("turns_are_delivered", "delivered", delivered("jsonb_set(content, '{3}', '\"steer 1 2.0\"')")),
    Plant("turns_are_delivered", "delivered", delivered("jsonb_set(content, '{1}', '\"knot 1 of claim 9\"')")),
    Plant("turns_are_delivered", "delivered", delivered("content - 1")),
    Plant("one_holder_for_each_claim_of_a_turn", "was held by [1, ", again("sails", pid=1)),
    Plant("one_holder_for_each_claim_of_a_turn", "was held by [1, ", again("stroke", pid=1)),
    Plant("one_holder_for_each_claim_of_a_turn", "which it never had", again("sails", epoch=99)),
    Plant("one_holder_for_each_claim_of_a_turn", "was kept for claim 0, and it was at", of_a_turn(
        "data = jsonb_set(data, '{turn_epoch}', '0') where kind = 'agent.step'"
    )),
    Plant("children_deliver_what_their_claim_said", "and delivered", rows(
        f"update ferryman.cards set content = '{{\"summary\": \"stroke 0 of claim 99\"}}'"
        f" where id = (select deliverable_card_id from ferryman.agent_inbox where id = {A_CHILD})"
    )),
    Plant("children_deliver_what_their_claim_said", "and delivered", rows(
        "update ferryman.events set data = jsonb_set(data, '{turn_epoch}', '99')"
        " where kind = 'agent.state' and to_state = 'idle'"
    )),
    Plant("children_deliver_what_their_claim_said", "and delivered", lambda scene: scene.lines.__setitem__(
        slice(None), [line for line in scene.lines if line["what"] != "stroke"]
    )),
    *(Plant("no_start_without_a_fault", f"{work}: ", again(what, epoch=2)) for what, work in claims.OF_TASKS.items()),
    Plant("no_start_without_a_fault", "turns of batches: ", lapsed),
    Plant("no_start_without_a_fault", "turns of batches: ", lapsed_after_an_outage),
    Plant("no_start_without_a_fault", "tasks: ", rows(  # a durable task that had parked
        f"update ferryman.events set reason_message = '{claims.LAPSED}' where kind = 'task' and from_state = 'running'"
        " and subject in (select id from ferryman.tasks where name = 'voyage' and state = 'succeeded')"
    )),
    Plant("nothing_is_passed_over", "stood in line for 6.0 s", passed_over(6.0, standing.PASSED)),
    Plant("nothing_is_passed_over", "stood in line for 31.0 s", passed_over(31.0)),
    Plant("who_lives_on_works_on", "worker-1.0001 was awake for 19.9 s and began nothing", idle),
    Plant(ALONE, "and began no task", left_alone("worker", *claims.OF_TASKS)),
    Plant(ALONE, "and took no turn", left_alone("worker", *claims.OF_TURNS)),
    Plant(ALONE, "and took no window", left_alone("worker", "asked")),
    Plant(ALONE, "and fired nothing", left_alone("dog", fired=False)),
    Plant(ALONE, "and took nothing back", left_alone("dog", reaped=False)),
    Plant("turns_are_delivered", "is still running", busy),
    Plant("batches_are_whole", "was acknowledged and is gone", rows("delete from ferryman.pmo_batches")),
    Plant("batches_are_whole", "was to have 3 tasks", rows("delete from ferryman.pmo_batch_tasks where task_index = 2")),
    Plant("batches_are_whole", "came to", rows("update ferryman.pmo_batch_tasks set status = 'failed' where task_index = 1")),
    Plant("batches_are_whole", "belongs to two tasks", rows(
        "update ferryman.pmo_batch_tasks set agent_turn_id = (select agent_turn_id from ferryman.pmo_batch_tasks limit 1)"
    )),
    Plant("batches_are_whole", "has no turn", rows("update ferryman.pmo_batch_tasks set agent_turn_id = gen_random_uuid()")),
    Plant("batches_are_whole", "(wreck) came to success", to(a_batch("wreck"), "success", "success")),
    Plant("batches_are_whole", "(wreck) came to failed", to(a_batch("wreck"), "failed", "canceled")),
    Plant("batches_are_whole", "(revoke) came to failed", to(a_batch("revoke"), "failed", "success")),
    Plant("batches_are_whole", "(revoke) came to timeout", to(a_batch("revoke"), "timeout", "canceled")),
    Plant("batches_are_whole", "was cancelled, and is success", to(a_batch("revoke"), "success", "success")),
    Plant("batches_are_whole", "(batch) came to failed", to(a_batch("batch"), "failed", "canceled")),
    Plant("batches_are_whole", "is success, and its turn canceled", rows(
        "update ferryman.agent_inbox set turn_status = 'canceled'"
        " where id in (select agent_turn_id from ferryman.pmo_batch_tasks)"
    )),
    Plant("batches_are_whole", "is canceled, and its turn failed (other)", turn_of_canceled("failed", "other")),
    Plant("batches_are_whole", "nobody asked for the batch", unasked),
    Plant("commands_are_complete", "was cancelled, and is COMPLETED", recalled("status = 'COMPLETED'")),
    Plant("commands_are_complete", "is FAILED (OTHERWISE)", recalled("error_code = 'OTHERWISE'")),
    Plant("commands_are_complete", "which was cancelled, started", leg_of_recalled("Leg.Elsewhere", "CANCELLED")),
    Plant("commands_are_complete", "which was cancelled, is FAILED", leg_of_recalled("Leg.Load", "FAILED")),
    Plant("commands_are_complete", "which was cancelled, was stated", rows(
        f"{EVENT} select now(), id, 'default', 'fact', null, null, 'Voyage.Landed' from ferryman.command_inbox"
        " where status = 'FAILED'"
    )),
    Plant("commands_are_complete", "is FAILED (COMMAND_CANCELLED)", lambda scene: [
        line.update(act="command") for line in scene.lines if line.get("act") == "recall"
    ]),
    Plant("what_was_asked_for_succeeded", "nobody had asked for it", lambda scene: [
        line.update(act="command") for line in scene.lines if line.get("act") == "recall"
    ]),
    Plant("commands_are_complete", "was acknowledged and is gone", rows("delete from ferryman.command_inbox")),
    Plant("commands_are_complete", "is FAILED", rows(
        "update ferryman.command_inbox set status = 'FAILED', error_message = 'so'"
    )),
    Plant("commands_are_complete", "started", rows("delete from ferryman.async_tasks where task_type = 'Leg.Cross'")),
    Plant("commands_are_complete", "is CANCELLED", rows(
        "update ferryman.async_tasks set status = 'CANCELLED' where task_type = 'Leg.Cross'"
    )),
    Plant("capabilities_keep_what_their_claim_said", "keeps {'epoch': 9}", rows(
        "update ferryman.async_tasks set result_data = '{\"epoch\": 9}' where task_type = 'Leg.Cross'"
    )),
    Plant("capabilities_keep_what_their_claim_said", "was settled in claim 9", rows(
        "update ferryman.tasks set epoch = 9 where id in (select task from ferryman.async_tasks)"
    )),
    Plant("commands_are_complete", "was stated", rows("delete from ferryman.events where subject_name = 'Voyage.Loaded'")),
    Plant("commands_are_complete", "was stated", rows(
        f"{EVENT} select at, subject, tenant, kind, null, null, subject_name from ferryman.events where kind = 'fact' limit 1"
    )),
    Plant("windows_are_covered", "1 records are missing", rows("delete from public.cargo where id = 7")),
    Plant("windows_are_covered", "written more than once", rows("update public.cargo set writes = 2 where id = 7")),
    Plant("windows_are_covered", "of ingestion is PARTIAL", rows("update ferryman.ingest_task set status = 'PARTIAL'")),
    Plant("windows_are_covered", "jumped", rows(
        "update ferryman.ingest_cursor_event set prev_position = prev_position + 1 where seq = 2"
    )),
    Plant("windows_are_covered", "its moves end at", rows("update ferryman.ingest_cursor set position = position + 1")),
    Plant("no_cursor_passes_what_is_not_fetched", "before that was fetched", rows(
        "update ferryman.ingest_cursor_event set at = at - interval '1 minute' where kind = 'forward'"
    )),
    Plant("no_cursor_passes_what_is_not_fetched", "before that was fetched", rows(
        "delete from ferryman.events where kind = 'ingest_task' and to_state = 'SUCCEEDED'"
    )),
    Plant("nobody_was_refused_for_good", "was refused", add("error", act="one", key="k", code="X", said="no")),
    Plant("the_products_own_invariants_hold", "is broken", add("broken", name="whole", says="", rows=[])),
    Plant("the_products_own_invariants_hold", "were not asked", forget("audited")),
    Plant("nobody_left_a_trace_of_a_crash", "ValueError: no", say(f"{TRACE}ValueError: no\nmore\n")),
    Plant("nobody_left_a_trace_of_a_crash", "ValueError: no", say(f"{TRACE}{AWAY}{CHAIN}{TRACE}ValueError: no\n")),
    Plant("nobody_left_a_trace_of_a_crash", "never retrieved", say("Task exception was never retrieved\n")),
]  # fmt: skip


@pytest.mark.contract("R3")
def test_of_a_world_in_which_all_went_well_the_checker_says_nothing(world: World) -> None:
    with world.scene() as scene:
        said, counted = checker.check(scene.seen())

    assert said == []
    assert sorted(counted) == sorted(checker.names())


@pytest.mark.contract("R3")
def test_where_rows_leave_the_log_and_the_histories_are_asked(world: World) -> None:
    with world.scene() as scene:
        scene.run("delete from ferryman.tasks")
        scene.run("delete from ferryman.pmo_batches")
        said, counted = checker.check(scene.seen(), rows_leave=True)
        assert said == []
        assert set(counted) < set(checker.names())

        scene.run("delete from ferryman.events where kind = 'task' and to_state = 'succeeded'")
        said, _ = checker.check(scene.seen(), rows_leave=True)
        assert any("was acknowledged and has 0 ends" in each for each in said)


@pytest.mark.contract("R3")
@pytest.mark.parametrize("plant", PLANTS, ids=[f"{plant.check} {plant.says}" for plant in PLANTS])
def test_a_check_speaks_when_one_thing_is_spoilt(world: World, plant: Plant) -> None:
    with world.scene() as scene:
        plant.spoil(scene)
        check = next(each for each in checker.CHECKS if each.__name__ == plant.check)
        found = list(check(scene.seen()))

    assert any(plant.says in each for each in found), found


@pytest.mark.contract("R3")
@pytest.mark.parametrize(
    ("what", "having", "check", "says"),
    [
        ("effect", {}, "success_was_earned", "without its effect"),
        ("start", {}, "success_was_earned", "nobody began it in that"),
        ("ran", {"step": "load"}, "steps_are_remembered", "which no run said"),
    ],
)
def test_a_plant_is_heard_where_something_was_done_twice(
    world: World, what: str, having: dict[str, str], check: str, says: str
) -> None:
    with world.scene() as scene:
        scene.lines.insert(0, {**scene.line(what, **having), "epoch": 0})  # by a claim that came to nothing
        forget(what, **having)(scene)
        found = list(next(each for each in checker.CHECKS if each.__name__ == check)(scene.seen()))

    assert any(says in each for each in found), found


@pytest.mark.contract("R3")
def test_a_child_that_was_stopped_is_no_failure_of_its_batch(world: World) -> None:
    with world.scene() as scene:
        turn_of_canceled("failed", "stopped")(scene)
        found = list(batches.batches_are_whole(scene.seen()))

    assert not any("its turn" in each for each in found), found


@pytest.mark.contract("R3")
@pytest.mark.parametrize(("times", "spoken"), [(batches.POISON_AFTER - 1, 1), (batches.POISON_AFTER, 0)])
def test_a_child_is_poison_when_its_holders_were_lost_as_often_as_the_contract_says(
    world: World, times: int, spoken: int
) -> None:
    with world.scene() as scene:
        batch = a_batch("batch")(scene)
        for table in ("pmo_batches", "pmo_batch_tasks", "agent_inbox"):
            scene.unguard(table)
        scene.run("update ferryman.pmo_batches set status = 'partial' where id = %s", batch)
        first = "batch_id = %s and task_index = 0"
        scene.run(f"update ferryman.pmo_batch_tasks set status = 'failed' where {first}", batch)
        turn = f"(select agent_turn_id from ferryman.pmo_batch_tasks where {first})"
        scene.run(
            f"update ferryman.agent_inbox set turn_status = 'failed', error_code = 'poison_message' where id = {turn}",
            batch,
        )
        for _ in range(times):
            scene.run(
                "insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code)"
                " select ferryman.clock(), agent_turn_id, 'default', 'agent.state', 'running', 'running', '', reason"
                f" from ferryman.pmo_batch_tasks, unnest(array['taken_over', 'lease_expired']) as reason where {first}",
                batch,
            )
        found = list(batches.batches_are_whole(scene.seen()))

    assert sum("(batch) came to partial" in each for each in found) == spoken, found


@pytest.mark.contract("R3")
@pytest.mark.parametrize(("role", "ceased"), [("worker", ()), ("dog", ("start", "sails", "asked"))])
def test_one_who_does_all_its_part_alone_is_not_told(world: World, role: str, ceased: tuple[str, ...]) -> None:
    with world.scene() as scene:
        left_alone(role, *ceased)(scene)

        assert list(alone.who_is_left_alone_does_all_its_part(scene.seen())) == []
        assert alone.left(scene.seen())[role] == 1


@pytest.mark.contract("R3")
def test_every_check_has_been_seen_to_speak() -> None:
    assert {plant.check for plant in PLANTS} == set(checker.names())


@pytest.mark.contract("R3")
def test_the_checker_knows_every_table_whose_rows_end() -> None:
    lifecycles = {page.stem for page in (ROOT / "docs" / "machines").glob("*.md")}

    assert lifecycles - APART == {domain.table for domain in ends.DOMAINS}


@pytest.mark.contract("R3")
def test_who_stood_still_for_another_may_have_used_up_its_time_and_nobody_else(world: World) -> None:
    stopped = {"what": "struck", "kind": "freeze", "name": "worker-0.0001", "child": 1, "by": "alone"}
    with world.scene() as scene:
        say(f"{TRACE}ferryman.kernel.watchdog.look.OutOfTime: W7 used up its 10 s\n")(scene)
        assert len(list(domains.nobody_left_a_trace_of_a_crash(scene.seen()))) == 1

        scene.lines.append({**stopped, "at": scene.lines[-1]["at"], "who": "storm", "pid": 1})
        assert list(domains.nobody_left_a_trace_of_a_crash(scene.seen())) == []


def test_that_the_database_is_away_may_be_told_at_length() -> None:
    said = f"{TRACE}OSError: refused\n{CHAIN}{TRACE}{AWAY}the database cannot be used; coming back\n"

    assert list(domains.traces(said)) == []


@pytest.mark.contract("R3")
def test_the_checker_shares_no_code_with_the_product() -> None:
    look = (
        "import sys, chaos.checker.figures; print([name for name in sys.modules if name.split('.')[0] == 'ferryman'])"
    )
    ended = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "[]"
