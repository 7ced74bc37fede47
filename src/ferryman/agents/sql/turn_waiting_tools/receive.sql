-- waiting -> received | expired, processing -> consumed
-- The first result for a call that its turn waits for is noted, counted down and put into the ledger; any other is consumed
-- without effect. Heads are locked before (agent_state_head/lock.sql). With the last one the turn may be taken in hand again.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select message.tenant, message.id, message.agent_id, message.message_type, message.tool_call_id, message.card_id
    from (select given.tenant, given.id
          from unnest((select :tenants::text[]), (select :ids::uuid[])) as given (tenant, id)
          limit (select 1000000)) as given
    join ferryman.agent_inbox as message on message.id = given.id
    where message.tenant = given.tenant
      and message.status = 'processing'
      and message.message_type in ('tool_result', 'timeout')
),
first as materialized (
    -- Earliest wins, also among those that come together.
    select distinct on (word.tenant, word.tool_call_id) word.*
    from word
    order by word.tenant, word.tool_call_id, word.id
),
noted as (
    update ferryman.turn_waiting_tools as waited
    set wait_status = case when first.message_type = 'timeout' then 'expired' else 'received' end,
        tool_result_card_id = first.card_id, received_at = clock.now
    from clock, first, ferryman.agent_state_head as head
    where waited.tenant = first.tenant
      and waited.tool_call_id = first.tool_call_id
      and waited.wait_status = 'waiting'
      and head.status = 'suspended'
      and head.active_agent_turn_id = waited.agent_turn_id
      and head.turn_epoch = waited.turn_epoch
    returning waited.tenant, waited.agent_id, waited.agent_turn_id, waited.turn_epoch, waited.tool_call_id,
              waited.tool_result_card_id, waited.wait_status, waited.task_id, waited.ends_at, first.id
),
ledger as (
    insert into ferryman.turn_resume_ledger (
        tenant, tool_call_id, created_at, updated_at, ends_at, turn_epoch, agent_turn_id, tool_result_card_id, agent_id)
    select noted.tenant, noted.tool_call_id, clock.now, clock.now, noted.ends_at, noted.turn_epoch, noted.agent_turn_id,
           noted.tool_result_card_id, noted.agent_id
    from noted, clock
),
counted as (
    update ferryman.agent_state_head as head
    set waiting_tool_count = head.waiting_tool_count - done.count, updated_at = clock.now,
        ready_at = case when head.waiting_tool_count = done.count then clock.now end,
        -- The earliest clock of those that are still waited for; when none is, the turn's own.
        resume_deadline = case when head.waiting_tool_count = done.count then head.turn_deadline
                               else least(head.turn_deadline, (
            select min(open.deadline_at)
            from ferryman.turn_waiting_tools as open
            where open.agent_turn_id = head.active_agent_turn_id
              and open.wait_status = 'waiting'
              and open.tool_call_id <> all(done.calls))) end
    from clock, (select agent_turn_id, count(*)::integer as count, array_agg(tool_call_id) as calls
                 from noted group by agent_turn_id) as done
    where head.active_agent_turn_id = done.agent_turn_id
    returning head.worker_target, head.waiting_tool_count
),
boxed as (
    update ferryman.boxes as box
    set card_ids = box.card_ids || added.card_ids, updated_at = clock.now
    from clock, (
        select head.output_box_id, array_agg(noted.tool_result_card_id order by noted.id) as card_ids
        from noted
        join ferryman.agent_state_head as head on head.active_agent_turn_id = noted.agent_turn_id
        group by head.output_box_id
    ) as added
    where box.id = added.output_box_id
),
consumed as (
    update ferryman.agent_inbox as message
    set status = 'consumed', processed_at = null, archived_at = clock.now
    from clock, word
    where message.id = word.id
      and message.status = 'processing'
)
-- What had an effect, and which workers have a turn to go on with.
select id, task_id, wait_status, null as worker_target
from noted
union all
select null, null, null, worker_target
from counted
where waiting_tool_count = 0
