-- dispatched -> running, suspended -> running; a turn that was given up stays running and gets another holder.
-- By the one index made for it. What somebody else is writing is passed over, so this statement never waits for a head.
-- Fair: every tenant with ready turns has its share, from the one after :after on and round, as many tenants as there is room.
-- The envelope in the inbox must be there: without it only the watchdog can help (W5).
-- As with a renewal, no lease outlasts the turn's wall time by more than the margin.
with recursive clock as materialized (
    select ferryman.clock() as now
),
beyond as (
    (select head.tenant, 1 as nth
     from ferryman.agent_state_head as head
     where head.ready_at > '-infinity' and head.tenant > :after
     order by head.tenant
     limit 1)
    union all
    select further.tenant, beyond.nth + 1
    from beyond
    cross join lateral (
        select head.tenant
        from ferryman.agent_state_head as head
        where head.ready_at > '-infinity' and head.tenant > beyond.tenant
        order by head.tenant
        limit 1
    ) as further
    where beyond.nth < :room
),
up_to as (
    (select head.tenant, 1 as nth
     from ferryman.agent_state_head as head
     where head.ready_at > '-infinity' and head.tenant <= :after
     order by head.tenant
     limit 1)
    union all
    select further.tenant, up_to.nth + 1
    from up_to
    cross join lateral (
        select head.tenant
        from ferryman.agent_state_head as head
        where head.ready_at > '-infinity' and head.tenant > up_to.tenant and head.tenant <= :after
        order by head.tenant
        limit 1
    ) as further
    where up_to.nth < :room
),
tenants as materialized (
    select round.tenant, row_number() over (order by round.lap, round.nth) as nth
    from (select tenant, nth, 1 as lap from beyond union all select tenant, nth, 2 from up_to) as round
    order by round.lap, round.nth
    limit :room
),
picked as materialized (
    select locked.*
    from tenants
    cross join lateral (
        select head.id, head.status, head.active_inbox_id, head.active_agent_turn_id, head.turn_epoch,
               -- Its wall time begins now, if it has not begun before.
               case when head.status = 'dispatched' then head.turn_deadline - (head.dispatch_deadline - (select now from clock))
                    else head.turn_deadline end as turn_deadline
        from ferryman.agent_state_head as head
        where head.tenant = tenants.tenant
          -- A range with two ends, or the planner would rather read the whole table; and not joined, or it would read the whole index.
          and head.ready_at > '-infinity'
          and head.ready_at <= (select now from clock)
          and head.profile = any(:profiles::text[])
          and head.worker_target = any(:targets::text[])
          and (head.callback is null or head.callback = any(:kinds::text[]))
          and (head.status <> 'suspended' or head.waiting_tool_count = 0)
          and head.turn_deadline > (select now from clock)
          and exists (select from ferryman.agent_inbox as message
                      where message.id = head.active_inbox_id
                        and message.status in ('pending', 'processing'))
        order by head.ready_at
        limit (select greatest(1, :room::integer / greatest(1, count(*))) from tenants)
        for update of head skip locked
    ) as locked
),
started as (
    update ferryman.agent_state_head as head
    set status = 'running', turn_epoch = head.turn_epoch + case when picked.status = 'suspended' then 1 else 0 end,
        updated_at = clock.now, since_at = clock.now, ready_at = null, dispatch_deadline = null, resume_deadline = null,
        started_at = coalesce(head.started_at, clock.now),
        turn_deadline = picked.turn_deadline, lease_owner = :owner,
        leased_until = least(clock.now + :lease::interval, picked.turn_deadline + :margin::interval)
    from clock, picked
    where head.id = picked.id
      and head.status in ('dispatched', 'suspended')
    returning head.tenant, head.agent_id, head.active_inbox_id, head.active_agent_turn_id, head.turn_epoch,
              head.turn_deadline, head.active_channel_id, head.started_at, head.context_box_id, head.output_box_id,
              head.active_recursion_depth, head.profile, head.traceparent, head.budget_id, head.parent_step_id,
              head.callback, head.callback_ref, picked.status as was
),
taken_over as (
    update ferryman.agent_state_head as head
    set updated_at = clock.now, ready_at = null, lease_owner = :owner,
        leased_until = least(clock.now + :lease::interval, picked.turn_deadline + :margin::interval)
    from clock, picked
    where head.id = picked.id
      and picked.status = 'running'
    returning head.tenant, head.agent_id, head.active_inbox_id, head.active_agent_turn_id, head.turn_epoch,
              head.turn_deadline, head.active_channel_id, head.started_at, head.context_box_id, head.output_box_id,
              head.active_recursion_depth, head.profile, head.traceparent, head.budget_id, head.parent_step_id,
              head.callback, head.callback_ref, picked.status as was
),
held as materialized (
    select * from started
    union all
    select * from taken_over
),
taken as (
    update ferryman.agent_inbox as message
    set status = 'processing', pending_at = null, processed_at = clock.now,
        look_at = clock.now + :look_after::interval, ends_at = held.turn_deadline + interval '1 min'
    from clock, held
    where message.id = held.active_inbox_id
      and message.status = 'pending'
),
again as (
    update ferryman.agent_inbox as message
    set processed_at = clock.now, look_at = clock.now + :look_after::interval
    from clock, held
    where message.id = held.active_inbox_id
      and message.status = 'processing'
),
applied as (
    update ferryman.turn_waiting_tools as waited
    set wait_status = 'applied', applied_at = clock.now
    from clock, held
    where waited.agent_turn_id = held.active_agent_turn_id
      and waited.wait_status = 'received'
),
ledger as (
    update ferryman.turn_resume_ledger as result
    set status = 'processing', attempt_count = result.attempt_count + 1, updated_at = clock.now, lease_owner = :owner,
        lease_expires_at = clock.now + :ledger_lease::interval
    from clock, held
    where result.agent_turn_id = held.active_agent_turn_id
      and result.status = 'pending'
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, data)
    select clock.now, held.active_agent_turn_id, held.tenant, 'agent.state', held.was, 'running', held.agent_id,
           case when held.was = 'running' then 'taken_over' end,
           jsonb_build_object('channel', held.active_channel_id, 'turn_epoch', held.turn_epoch)
    from held, clock
)
select held.active_agent_turn_id as id, held.turn_epoch as epoch, held.tenant, held.agent_id, held.profile, held.was,
       held.active_channel_id as channel, held.active_recursion_depth as depth, held.context_box_id, held.output_box_id,
       held.budget_id, held.parent_step_id, held.callback, held.callback_ref, held.traceparent, held.started_at,
       held.turn_deadline,
       extract(epoch from held.turn_deadline - clock.now)::float8 as seconds_left,
       record.payload, record.source_agent_id, record.source_turn_id, answered.results, seen.tenants, seen.last
-- One row at least: how many tenants were asked, and which came last, also if nothing of theirs was taken.
from clock, (select count(*)::integer as tenants, (array_agg(tenants.tenant order by tenants.nth desc))[1] as last from tenants) as seen
left join (held join ferryman.agent_inbox as record on record.id = held.active_inbox_id) on true
-- A turn that goes on is given what it waited for; those of its calls that were answered before, only a replay reads.
left join lateral (
    select json_agg(json_build_array(waited.agent_turn_id, waited.tool_call_id, waited.tool_name, waited.nth, waited.wait_status,
                                     waited.turn_epoch, waited.after_execution, waited.tool_result_card_id, card.content::text)
                    order by waited.created_at, waited.tool_call_id) as results
    from ferryman.turn_waiting_tools as waited
    join ferryman.cards as card on card.id = waited.tool_result_card_id
    where waited.agent_turn_id = held.active_agent_turn_id
      and waited.turn_epoch = held.turn_epoch - 1
) as answered on true
