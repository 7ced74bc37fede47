-- idle -> dispatched, queued -> pending
-- The oldest waiting turn of each idle agent is put before the workers (dispatch_next). Rows that lack what a turn needs are
-- named in the answer (epoch null) and passed over: whoever called ends them. A turn that somebody has taken back meanwhile is not
-- put before anybody: its agent is named without a turn, and whoever called asks for the next.
with clock as materialized (
    select ferryman.clock() as now
),
idle as materialized (
    select locked.id, locked.tenant, locked.agent_id
    from (
        select distinct given.tenant, given.agent_id
        from unnest((select :tenants::text[]), (select :agent_ids::text[])) as given (tenant, agent_id)
        order by given.tenant, given.agent_id
        limit (select 1000000)
    ) as word
    cross join lateral (
        select head.id, head.tenant, head.agent_id
        from ferryman.agent_state_head as head
        where head.tenant = word.tenant
          and head.agent_id = word.agent_id
          and head.status = 'idle'
        for update
    ) as locked
),
waiting as materialized (
    select idle.id as head_id, message.tenant, message.agent_id, message.id, message.created_at, message.wall_ms, message.callback,
           message.message_type in ('turn', 'ui_action') and message.agent_turn_id is not distinct from message.id
               and message.channel_id is not null and message.context_box_id is not null
               and message.output_box_id is not null as sound
    from idle
    cross join lateral (
        select queued.*
        from ferryman.agent_inbox as queued
        where queued.tenant = idle.tenant
          and queued.agent_id = idle.agent_id
          and queued.archived_at is null
          and queued.status = 'queued'
          and queued.merged_into is null
        order by queued.created_at, queued.id
        limit 6
    ) as message
),
chosen as materialized (
    select distinct on (waiting.head_id) waiting.head_id, waiting.id, waiting.tenant, waiting.agent_id
    from waiting
    where waiting.sound
    order by waiting.head_id, waiting.created_at, waiting.id
),
taken as materialized (
    select chosen.head_id, message.id
    from chosen
    join ferryman.agent_inbox as message on message.id = chosen.id
    where message.status = 'queued'
    order by message.tenant, message.id
    for update of message
),
leased as (
    update ferryman.agent_state_head as head
    set status = 'dispatched', turn_epoch = head.turn_epoch + 1, updated_at = clock.now, since_at = clock.now,
        ready_at = clock.now, dispatch_deadline = clock.now + :patience::interval,
        turn_deadline = clock.now + :patience::interval + coalesce(message.wall_ms * interval '1 ms', :wall::interval),
        active_agent_turn_id = message.id, active_inbox_id = message.id, active_channel_id = message.channel_id,
        active_recursion_depth = message.recursion_depth, parent_step_id = message.parent_step_id,
        context_box_id = message.context_box_id, output_box_id = message.output_box_id, budget_id = message.budget_id,
        callback = message.callback, callback_ref = message.callback_ref, traceparent = message.traceparent,
        dispatch_retries = 0, retried_at = null, started_at = null
    from clock, taken
    join ferryman.agent_inbox as message on message.id = taken.id
    where head.id = taken.head_id
      and head.status = 'idle'
    returning head.tenant, head.agent_id, head.turn_epoch, head.active_agent_turn_id, head.turn_deadline,
              head.active_channel_id, head.worker_target
),
promoted as (
    update ferryman.agent_inbox as message
    set status = 'pending', pending_at = clock.now, turn_epoch = leased.turn_epoch,
        look_at = clock.now + :look_after::interval, ends_at = leased.turn_deadline + interval '1 min'
    from clock, leased
    where message.id = leased.active_agent_turn_id
      and message.status = 'queued'
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, data)
    select clock.now, leased.active_agent_turn_id, leased.tenant, 'agent.state', 'idle', 'dispatched', leased.agent_id,
           jsonb_build_object('channel', leased.active_channel_id, 'turn_epoch', leased.turn_epoch)
    from leased, clock
)
select tenant, agent_id, active_agent_turn_id as id, turn_epoch, worker_target
from leased
union all
select tenant, agent_id, id, null, null
from waiting
where not sound
  -- An owner would have to be locked before the head: its message waits for the watchdog (A3).
  and callback is null
union all
select chosen.tenant, chosen.agent_id, null, null, null
from chosen
where chosen.head_id not in (select taken.head_id from taken)
