-- -> queued
-- A turn comes in: its instruction, its boxes, its message and the edge that tells who asked, in one statement.
-- A repeat (same type and correlation) adds nothing: its boxes are not made either.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:orders::jsonb) as given (
            tenant text, turn uuid, agent_id text, message_type text, channel text, depth integer, context_box uuid,
            inherited uuid[], output_box uuid, makes_output boolean, card uuid, instruction jsonb, author text,
            source_agent text, source_turn uuid, source_step uuid, parent_step uuid, budget uuid, callback text,
            callback_ref text, traceparent text, wall_ms bigint, payload jsonb, edge uuid)
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
born as (
    insert into ferryman.agent_inbox (
        tenant, id, created_at, look_at, ends_at, wall_ms, recursion_depth, agent_turn_id, context_box_id, output_box_id,
        parent_step_id, source_turn_id, source_step_id, budget_id, agent_id, message_type, correlation_id, status,
        channel_id, source_agent_id, callback, callback_ref, traceparent, payload)
    select word.tenant, word.turn, clock.now, clock.now + :queued_for::interval, clock.now + :queued_for::interval,
           word.wall_ms, word.depth, word.turn, word.context_box, word.output_box, word.parent_step, word.source_turn,
           word.source_step, word.budget, word.agent_id, word.message_type, word.turn::text, 'queued', word.channel,
           word.source_agent, word.callback, word.callback_ref, word.traceparent, coalesce(word.payload, '{}')
    from word, clock
    order by word.tenant, word.turn
    on conflict do nothing
    returning tenant, id
),
fresh as (
    select word.*
    from word
    where (word.turn in (select born.id from born)) is true
),
written as (
    insert into ferryman.cards (tenant, id, created_at, agent_turn_id, type, role, author_id, content)
    select fresh.tenant, fresh.card, clock.now, fresh.turn, 'task.instruction', 'user', fresh.author, fresh.instruction
    from fresh, clock
    where fresh.card is not null
),
boxed as (
    insert into ferryman.boxes (tenant, id, created_at, updated_at, card_ids)
    select fresh.tenant, fresh.context_box, clock.now, clock.now, coalesce(fresh.inherited, '{}') || fresh.card
    from fresh, clock
    where fresh.card is not null
    union all
    select fresh.tenant, fresh.output_box, clock.now, clock.now, '{}'::uuid[]
    from fresh, clock
    where fresh.makes_output
),
-- A box that is given to a turn is in use from now on (T20); one that was written lately says so already.
given as (
    update ferryman.boxes as box
    set updated_at = clock.now
    from clock, fresh
    where box.id in (fresh.context_box, fresh.output_box)
      and box.updated_at < clock.now - interval '1 hour'
),
edges as (
    insert into ferryman.execution_edges (
        tenant, correlation_id, primitive, edge_phase, id, created_at, recursion_depth, source_turn_id, source_step_id,
        target_turn_id, source_agent_id, target_agent_id)
    select fresh.tenant, fresh.turn::text, 'enqueue', 'request', fresh.edge, clock.now, fresh.depth, fresh.source_turn,
           fresh.source_step, fresh.turn, fresh.source_agent, fresh.agent_id
    from fresh, clock
    on conflict do nothing
)
select tenant, id
from born
