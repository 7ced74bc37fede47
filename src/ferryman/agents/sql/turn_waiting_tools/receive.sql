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
    join ferryman.agent_inbox as message on message.tenant = given.tenant and message.id = given.id
    where message.status = 'processing'
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
    from clock, first
    join ferryman.agent_state_head as head on head.tenant = first.tenant and head.agent_id = first.agent_id
    where waited.tenant = first.tenant
      and waited.tool_call_id = first.tool_call_id
      and waited.wait_status = 'waiting'
      and waited.agent_id = head.agent_id
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
        resume_deadline = least(head.turn_deadline, (
            select min(open.deadline_at)
            from ferryman.turn_waiting_tools as open
            where open.tenant = head.tenant
              and open.agent_turn_id = head.active_agent_turn_id
              and open.wait_status = 'waiting'
              and not exists (select from noted where noted.tenant = open.tenant and noted.tool_call_id = open.tool_call_id)))
    from clock, (select tenant, agent_id, count(*)::integer as count from noted group by tenant, agent_id) as done
    where head.tenant = done.tenant
      and head.agent_id = done.agent_id
    returning head.tenant, head.agent_id, head.waiting_tool_count
),
boxed as (
    update ferryman.boxes as box
    set card_ids = box.card_ids || added.card_ids, updated_at = clock.now
    from clock, (
        select head.tenant, head.output_box_id, array_agg(noted.tool_result_card_id order by noted.id) as card_ids
        from noted
        join ferryman.agent_state_head as head on head.tenant = noted.tenant and head.agent_id = noted.agent_id
        group by head.tenant, head.output_box_id
    ) as added
    where box.tenant = added.tenant
      and box.id = added.output_box_id
),
consumed as (
    update ferryman.agent_inbox as message
    set status = 'consumed', processed_at = null, archived_at = clock.now
    from clock, word
    where message.tenant = word.tenant
      and message.id = word.id
      and message.status = 'processing'
    returning message.tenant, message.id
)
select consumed.tenant, consumed.id, noted.id is not null as awaited, noted.agent_id,
       coalesce(counted.waiting_tool_count = 0, false) as resumes,
       case when noted.wait_status = 'expired' then noted.task_id end as late_task
from consumed
left join noted on noted.tenant = consumed.tenant and noted.id = consumed.id
left join counted on counted.tenant = noted.tenant and counted.agent_id = noted.agent_id
