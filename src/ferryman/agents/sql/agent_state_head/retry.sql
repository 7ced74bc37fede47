-- W5: the envelope of a dispatched turn is rebuilt from its head and put into the inbox once more, under a number of its own.
-- The status, and since when it has it, stay: this must not postpone the end (W6).
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.id, given.epoch, given.fresh
    from unnest((select :ids::uuid[]), (select :epochs::bigint[]), (select :fresh::uuid[])) as given (id, epoch, fresh)
    limit (select 1000000)
),
held as materialized (
    select head.id, word.fresh
    from clock, word
    join ferryman.agent_state_head as head on head.active_agent_turn_id = word.id
    where head.turn_epoch = word.epoch
      and head.status = 'dispatched'
      and greatest(head.since_at, head.retried_at) <= clock.now - :retry_after::interval
    order by head.tenant, head.agent_id
    for update of head skip locked
),
kept as (
    update ferryman.agent_state_head as head
    set updated_at = clock.now, retried_at = clock.now, dispatch_retries = head.dispatch_retries + 1,
        active_inbox_id = held.fresh
    from clock, held
    where head.id = held.id
    returning head.*
),
born as (
    insert into ferryman.agent_inbox (
        tenant, id, created_at, look_at, ends_at, pending_at, turn_epoch, recursion_depth, agent_turn_id, context_box_id,
        output_box_id, parent_step_id, budget_id, agent_id, message_type, correlation_id, status, channel_id, callback,
        callback_ref, traceparent, source_agent_id, source_turn_id, source_step_id, payload)
    select kept.tenant, kept.active_inbox_id, clock.now, clock.now + :look_after::interval,
           kept.turn_deadline + interval '1 min', clock.now, kept.turn_epoch, coalesce(kept.active_recursion_depth, 0),
           kept.active_agent_turn_id, kept.context_box_id, kept.output_box_id, kept.parent_step_id, kept.budget_id,
           kept.agent_id, 'turn', kept.active_agent_turn_id || '#' || kept.dispatch_retries, 'pending',
           kept.active_channel_id, kept.callback, kept.callback_ref, kept.traceparent, record.source_agent_id,
           record.source_turn_id, record.source_step_id, coalesce(record.payload, '{}')
    from clock, kept
    left join ferryman.agent_inbox as record on record.id = kept.active_agent_turn_id
    on conflict do nothing
)
select active_agent_turn_id as id, tenant, agent_id, worker_target
from kept
