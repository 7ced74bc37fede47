-- -> consumed, waiting -> received | expired
-- Results come in, each with its tool.result card and the edge that answers the request; a repeat adds nothing. Their messages
-- are born consumed: nothing is left to be done with them when this statement has ended. The first result for a call that its
-- turn waits for is noted, counted down and put into the ledger; any other has no effect. Heads are locked before
-- (agent_state_head/lock.sql). With the last one the turn may be taken in hand again.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*, waited.agent_id, waited.agent_turn_id as turn, coalesce(record.recursion_depth, 0) as depth
    from (
        select given.*
        from jsonb_to_recordset(:reports::jsonb) as given (
            tenant text, id uuid, message_type text, tool_call_id text, card uuid, content jsonb, author text, edge uuid,
            source_agent text, source_turn uuid, traceparent text)
        limit (select 1000000)
    ) as said
    join ferryman.turn_waiting_tools as waited on waited.tenant = said.tenant and waited.tool_call_id = said.tool_call_id
    left join ferryman.agent_inbox as record on record.id = waited.agent_turn_id
    limit (select 1000000)
),
born as (
    insert into ferryman.agent_inbox (
        tenant, id, created_at, look_at, ends_at, archived_at, recursion_depth, agent_turn_id, card_id, source_turn_id,
        agent_id, message_type, correlation_id, status, source_agent_id, tool_call_id, traceparent)
    select word.tenant, word.id, clock.now, clock.now, clock.now, clock.now, word.depth, word.turn, word.card,
           word.source_turn, word.agent_id, word.message_type, word.tool_call_id, 'consumed', word.source_agent,
           word.tool_call_id, word.traceparent
    from word, clock
    order by word.tenant, word.id
    on conflict do nothing
    returning id
),
fresh as materialized (
    select word.*
    from word
    where (word.id in (select born.id from born)) is true
),
written as (
    insert into ferryman.cards (tenant, id, created_at, agent_turn_id, type, role, author_id, tool_call_id, content)
    select fresh.tenant, fresh.card, clock.now, fresh.turn, 'tool.result', 'tool', fresh.author, fresh.tool_call_id, fresh.content
    from fresh, clock
    where fresh.content is not null
),
edges as (
    insert into ferryman.execution_edges (
        tenant, correlation_id, primitive, edge_phase, id, created_at, recursion_depth, source_turn_id, target_turn_id,
        source_agent_id, target_agent_id, metadata)
    select fresh.tenant, fresh.tool_call_id, 'report', 'response', fresh.edge, clock.now, fresh.depth, fresh.source_turn,
           fresh.turn, fresh.source_agent, fresh.agent_id, jsonb_build_object('message_type', fresh.message_type)
    from fresh, clock
    on conflict do nothing
),
first as materialized (
    -- Earliest wins, also among those that come together.
    select distinct on (fresh.tenant, fresh.tool_call_id) fresh.*
    from fresh
    order by fresh.tenant, fresh.tool_call_id, fresh.id
),
noted as (
    update ferryman.turn_waiting_tools as waited
    set wait_status = case when first.message_type = 'timeout' then 'expired' else 'received' end,
        tool_result_card_id = first.card, received_at = clock.now
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
)
-- What is new, what had an effect, and which workers have a turn to go on with; what is not in the answer no turn has asked for.
select word.id, word.id in (select born.id from born) as born, noted.id is not null as noted, noted.task_id, noted.wait_status,
       null as worker_target
from word
left join noted using (id)
union all
select null, false, false, null, null, worker_target
from counted
where waiting_tool_count = 0
