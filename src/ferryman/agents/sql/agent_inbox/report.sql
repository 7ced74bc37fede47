-- -> processing
-- Results come in, each with its tool.result card and the edge that answers the request; a repeat adds nothing.
-- They are born in the hands of the transaction that brings them: receive.sql is its next statement.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:reports::jsonb) as given (
            tenant text, id uuid, agent_id text, message_type text, tool_call_id text, correlation text, turn uuid, card uuid,
            content jsonb, author text, depth integer, edge uuid, source_agent text, source_turn uuid, traceparent text)
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
born as (
    insert into ferryman.agent_inbox (
        tenant, id, created_at, look_at, ends_at, processed_at, recursion_depth, agent_turn_id, card_id, source_turn_id,
        agent_id, message_type, correlation_id, status, source_agent_id, tool_call_id, traceparent)
    select word.tenant, word.id, clock.now, clock.now + interval '1 min', clock.now + interval '1 min', clock.now,
           word.depth, word.turn, word.card, word.source_turn, word.agent_id, word.message_type, word.correlation,
           'processing', word.source_agent, word.tool_call_id, word.traceparent
    from word, clock
    order by word.tenant, word.id
    on conflict do nothing
    returning id
),
fresh as (
    select word.*
    from born
    join word using (id)
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
    select fresh.tenant, fresh.correlation, 'report', 'response', fresh.edge, clock.now, fresh.depth, fresh.source_turn,
           fresh.turn, fresh.source_agent, fresh.agent_id, jsonb_build_object('message_type', fresh.message_type)
    from fresh, clock
    on conflict do nothing
)
select id
from born
