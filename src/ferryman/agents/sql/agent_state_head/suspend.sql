-- running -> suspended
-- With the calls that the turn waits for: their cards, one waiting row each with its own deadline, and the results of the last
-- suspension brought to their end. The tool tasks are created in the same transaction.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:suspensions::jsonb) as given (
            tenant text, agent_id text, turn uuid, epoch bigint, owner uuid, calls jsonb)
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
held as materialized (
    select head.id, head.tenant, head.agent_id, word.turn, word.calls, head.output_box_id
    from word
    join ferryman.agent_state_head as head on head.active_agent_turn_id = word.turn
    where head.tenant = word.tenant
      and head.turn_epoch = word.epoch
      and head.lease_owner = word.owner
      and head.status = 'running'
    order by head.tenant, head.agent_id
    for update of head skip locked
),
call as materialized (
    select held.id, held.tenant, held.agent_id, held.turn, held.output_box_id, asked.*
    from held
    cross join lateral rows from (jsonb_to_recordset(held.calls) as (
        tool_call_id text, tool_name text, nth integer, card_id uuid, content jsonb, step_id uuid, task_id uuid,
        after_execution text, seconds float8)) with ordinality as asked (
        tool_call_id, tool_name, nth, card_id, content, step_id, task_id, after_execution, seconds, asked_nth)
),
gone as (
    update ferryman.agent_state_head as head
    set status = 'suspended', updated_at = clock.now, since_at = clock.now, lease_owner = null, leased_until = null,
        ready_at = case when summed.count is null then clock.now end,
        waiting_tool_count = coalesce(summed.count, 0),
        resume_deadline = least(head.turn_deadline, clock.now + make_interval(secs => summed.soonest))
    from clock, held
    left join (select id, count(*)::integer as count, min(seconds) as soonest from call group by id) as summed using (id)
    where head.id = held.id
      and head.status = 'running'
    returning head.id, head.tenant, head.agent_id, head.active_agent_turn_id, head.turn_epoch, head.turn_deadline,
              head.active_channel_id, head.waiting_tool_count, head.resume_deadline
),
written as (
    insert into ferryman.cards (tenant, id, created_at, agent_turn_id, step_id, type, role, author_id, tool_call_id, content)
    select call.tenant, call.card_id, clock.now, call.turn, call.step_id, 'tool.call', 'assistant', call.agent_id,
           call.tool_call_id, call.content
    from call, clock
),
boxed as (
    update ferryman.boxes as box
    set card_ids = box.card_ids || called.card_ids, updated_at = clock.now
    from clock, (
        select box_id, card_ids
        from (select output_box_id as box_id, array_agg(card_id order by asked_nth) as card_ids
              from call group by output_box_id limit (select 1000000)) as called
        limit (select 1000000)
    ) as called
    where box.id = called.box_id
),
waits as (
    insert into ferryman.turn_waiting_tools (
        tenant, tool_call_id, created_at, deadline_at, ends_at, turn_epoch, nth, agent_turn_id, step_id, task_id,
        tool_call_card_id, agent_id, tool_name, after_execution)
    select call.tenant, call.tool_call_id, clock.now, clock.now + make_interval(secs => call.seconds), gone.turn_deadline,
           gone.turn_epoch, call.nth, call.turn, call.step_id, call.task_id, call.card_id, call.agent_id, call.tool_name,
           call.after_execution
    from clock, call
    join gone using (id)
),
ledger as (
    update ferryman.turn_resume_ledger as result
    set status = 'applied', updated_at = clock.now, lease_owner = null, lease_expires_at = null
    from clock, gone
    where result.agent_turn_id = gone.active_agent_turn_id
      and result.status in ('pending', 'processing')
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, data)
    select clock.now, gone.active_agent_turn_id, gone.tenant, 'agent.state', 'running', 'suspended', gone.agent_id,
           jsonb_build_object('channel', gone.active_channel_id, 'turn_epoch', gone.turn_epoch,
                              'waiting_tool_count', gone.waiting_tool_count, 'resume_deadline', gone.resume_deadline)
    from gone, clock
)
select active_agent_turn_id as id, true as moved
from gone
union all
-- Those that are still the sender's, but were being written by somebody else.
select word.turn, false
from word
join ferryman.agent_state_head as head on head.active_agent_turn_id = word.turn
where head.tenant = word.tenant
  and head.turn_epoch = word.epoch
  and head.lease_owner = word.owner
  and head.status = 'running'
  and word.turn not in (select held.turn from held)
