-- running | dispatched | suspended -> idle
-- The one way in which a turn that was dispatched ends, whoever ends it: its holder (with owner), a stop or the watchdog (without
-- one, and with the statuses it expects). Head, message, deliverable, waiting calls, results, and both events, together.
-- A deliverable that the turn has left already is kept when only a fallback is offered.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:ends::jsonb) as given (
            tenant text, agent_id text, turn uuid, epoch bigint, owner uuid, expects text, overdue boolean, bump integer,
            status text, code text, error text, card uuid, content jsonb, fallback boolean, result_card uuid, forced uuid,
            message_status text)
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
held as materialized (
    select head.id, head.tenant, head.agent_id, head.output_box_id, head.status as was, head.callback, head.callback_ref,
           head.active_channel_id, head.started_at, head.since_at, head.active_inbox_id,
           word.turn, word.bump, word.status, word.code, word.error, word.card, word.content, word.fallback, word.result_card,
           word.forced, word.message_status, word.owner is not null as own
    from clock, word
    join ferryman.agent_state_head as head on head.active_agent_turn_id = word.turn
    where head.tenant = word.tenant
      and head.turn_epoch = word.epoch
      and (word.owner is null or head.lease_owner = word.owner)
      and head.status = any(string_to_array(word.expects, ','))
      and (not word.overdue or least(head.dispatch_deadline, head.leased_until, head.turn_deadline) <= clock.now)
    order by head.tenant, head.agent_id
    for update of head skip locked
),
prior as materialized (
    select distinct on (held.turn) held.turn, card.id
    from held
    join ferryman.boxes as box on box.id = held.output_box_id
    cross join lateral unnest(box.card_ids) with ordinality as listed (id, nth)
    join ferryman.cards as card on card.id = listed.id
    where held.fallback
      and card.type = 'task.deliverable'
      and card.agent_turn_id = held.turn
    order by held.turn, listed.nth desc
),
gone as (
    update ferryman.agent_state_head as head
    set status = 'idle', turn_epoch = head.turn_epoch + held.bump, updated_at = clock.now, since_at = clock.now,
        ready_at = null, dispatch_deadline = null, leased_until = null, lease_owner = null, resume_deadline = null,
        turn_deadline = null, started_at = null, retried_at = null, dispatch_retries = 0, active_recursion_depth = null,
        waiting_tool_count = 0, active_agent_turn_id = null, active_inbox_id = null, parent_step_id = null,
        context_box_id = null, output_box_id = null, last_output_box_id = held.output_box_id, budget_id = null,
        active_channel_id = null, callback = null, callback_ref = null, traceparent = null
    from clock, held
    where head.id = held.id
      and head.status in ('dispatched', 'running', 'suspended')
    returning head.tenant, head.agent_id, head.turn_epoch, held.turn, held.was, held.own, held.output_box_id, held.status,
              held.code, held.error, held.card, held.content, held.fallback, held.result_card, held.forced,
              held.message_status, held.callback, held.callback_ref, held.active_channel_id, held.since_at
),
ended as materialized (
    select gone.*, coalesce(prior.id, gone.card) as deliverable, prior.id is null as writes
    from gone
    left join prior using (turn)
),
written as (
    insert into ferryman.cards (tenant, id, created_at, agent_turn_id, type, role, author_id, content, metadata)
    select ended.tenant, ended.card, clock.now, ended.turn, 'task.deliverable', 'assistant', ended.agent_id, ended.content,
           case when ended.fallback then '{"fallback": true}'::jsonb end
    from ended, clock
    where ended.writes
),
boxed as (
    update ferryman.boxes as box
    set card_ids = box.card_ids || ended.card, updated_at = clock.now
    from clock, ended
    where ended.writes
      and box.id = ended.output_box_id
),
messages as (
    update ferryman.agent_inbox as message
    set status = case when message.status in ('queued', 'pending') and ended.message_status = 'consumed' then 'skipped'
                      else ended.message_status end,
        pending_at = null, processed_at = null, archived_at = clock.now,
        watchdog_at = case when ended.own then message.watchdog_at else clock.now end,
        watchdog_error = case when ended.own then message.watchdog_error else ended.code end,
        -- The turn's own message, and those that were merged into it (A20); not those that were put in again (W5).
        ended_at = case when message.id = message.agent_turn_id then clock.now end,
        turn_status = case when message.id = message.agent_turn_id then ended.status end,
        deliverable_card_id = case when message.id = message.agent_turn_id then ended.deliverable end,
        tool_result_card_id = case when message.id = message.agent_turn_id then ended.result_card end,
        error_code = ended.code, error = ended.error
    from clock, ended
    where message.tenant = ended.tenant
      and message.agent_id = ended.agent_id
      and message.archived_at is null
      and (message.agent_turn_id = ended.turn and message.status in ('pending', 'processing')
           or message.merged_into = ended.turn and message.status = 'queued')
    returning message.id, message.tenant, message.agent_id, message.channel_id, message.merged_into, ended.turn, ended.status,
              ended.code, ended.error, ended.output_box_id, ended.deliverable
),
dropped as (
    update ferryman.turn_waiting_tools as waited
    set wait_status = 'dropped'
    from ended
    where waited.agent_turn_id = ended.turn
      and waited.wait_status in ('waiting', 'received')
    returning waited.task_id, ended.turn, ended.tenant, ended.agent_id
),
ledger as (
    update ferryman.turn_resume_ledger as result
    set status = case when ended.own then 'applied' else 'dropped' end, updated_at = clock.now, lease_owner = null,
        lease_expires_at = null
    from clock, ended
    where result.agent_turn_id = ended.turn
      and result.status in ('pending', 'processing')
),
freed as (
    delete from ferryman.budget_reservations as reserved
    using ended
    where reserved.tenant = ended.tenant
      and reserved.agent_turn_id = ended.turn
),
forced as (
    insert into ferryman.agent_steps (tenant, agent_turn_id, kind, name, id, started_at, ended_at, turn_epoch, agent_id, status, error)
    select ended.tenant, ended.turn, 'termination', ended.code, ended.forced, ended.since_at, clock.now, ended.turn_epoch,
           ended.agent_id, 'failed', ended.error
    from ended, clock
    where ended.forced is not null
    on conflict do nothing
),
told as (
    insert into ferryman.events (
        at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, reason_message, data)
    select clock.now, ended.turn, ended.tenant, 'agent.state', ended.was, 'idle', ended.agent_id, ended.code, ended.error,
           jsonb_build_object('channel', ended.active_channel_id, 'turn_epoch', ended.turn_epoch)
    from ended, clock
    union all
    select clock.now, ended.turn, ended.tenant, 'agent.task', null, ended.status, ended.agent_id, ended.code, ended.error,
           jsonb_strip_nulls(jsonb_build_object(
               'channel', ended.active_channel_id, 'output_box_id', ended.output_box_id,
               'deliverable_card_id', ended.deliverable, 'tool_result_card_id', ended.result_card))
    from ended, clock
    union all
    select clock.now, merged.id, merged.tenant, 'agent.task', null, merged.status, merged.agent_id, merged.code, merged.error,
           jsonb_strip_nulls(jsonb_build_object(
               'channel', merged.channel_id, 'output_box_id', merged.output_box_id,
               'deliverable_card_id', merged.deliverable, 'merged_into', merged.turn))
    from clock, messages as merged
    where merged.merged_into = merged.turn
)
select ended.turn as id, ended.tenant, ended.agent_id, ended.turn_epoch, ended.was, ended.status, ended.code, ended.error,
       ended.output_box_id, ended.deliverable as deliverable_card_id, ended.result_card as tool_result_card_id,
       ended.callback, ended.callback_ref, true as moved, null::uuid as task,
       exists (select from ferryman.agent_inbox as next
               where next.tenant = ended.tenant and next.agent_id = ended.agent_id and next.archived_at is null
                 and next.status = 'queued' and next.merged_into is null) as more
from ended
union all
-- The tools' tasks that nobody waits for any more.
select turn, tenant, agent_id, null, null, null, null, null, null, null, null, null, null, null, task_id, false
from dropped
where task_id is not null
union all
-- Those that are still as the sender says, but were being written by somebody else.
select word.turn, word.tenant, word.agent_id, null, null, null, null, null, null, null, null, null, null, false, null, false
from word
join ferryman.agent_state_head as head on head.active_agent_turn_id = word.turn
where head.tenant = word.tenant
  and head.turn_epoch = word.epoch
  and (word.owner is null or head.lease_owner = word.owner)
  and head.status = any(string_to_array(word.expects, ','))
  and not word.overdue
  and word.turn not in (select held.turn from held)
