-- -> pending
-- A stop is asked for: a message only, no head is touched, so that whoever holds a batch may ask (A16).
-- Ordered by turn: two who ask for the same stops wait for each other in one order.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:stops::jsonb) as given (
            tenant text, id uuid, agent_id text, turn uuid, epoch bigint, reason text, source_agent text, source_turn uuid,
            depth integer, edge uuid)
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
born as (
    insert into ferryman.agent_inbox (
        tenant, id, created_at, look_at, ends_at, pending_at, recursion_depth, agent_turn_id, turn_epoch, source_turn_id,
        agent_id, message_type, correlation_id, status, channel_id, source_agent_id, payload)
    select word.tenant, word.id, clock.now, clock.now, clock.now + interval '10 min', clock.now, word.depth, word.turn,
           word.epoch, word.source_turn, word.agent_id, 'stop', word.turn || '@' || coalesce(word.epoch::text, 'any'), 'pending', 'stop',
           word.source_agent, jsonb_build_object('reason', word.reason)
    from word, clock
    order by word.tenant, word.turn, word.epoch, word.id
    on conflict do nothing
    returning id
),
edges as (
    insert into ferryman.execution_edges (
        tenant, correlation_id, primitive, edge_phase, id, created_at, recursion_depth, source_turn_id, target_turn_id,
        source_agent_id, target_agent_id, metadata)
    select word.tenant, 'stop:' || word.turn || '@' || coalesce(word.epoch::text, 'any'), 'enqueue', 'request', word.edge, clock.now, word.depth,
           word.source_turn, word.turn, word.source_agent, word.agent_id, jsonb_build_object('message_type', 'stop')
    from word, clock
    where (word.id in (select born.id from born)) is true
    on conflict do nothing
)
select id
from born
