-- What steps came to, by holders whose turns are still theirs; what is there stays. Each step is an event (A15, A17).
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:steps::jsonb) as given (
            turn uuid, epoch bigint, owner uuid, kind text, name text, nth integer, id uuid, status text, seconds float8,
            result jsonb, error text, tool_call_ids text[], input_tokens bigint, output_tokens bigint, cost numeric, metadata jsonb)
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
mine as materialized (
    select head.tenant, head.agent_id, head.active_agent_turn_id as turn, head.turn_epoch, head.active_channel_id
    from (select distinct turn, epoch, owner from word) as writer
    join ferryman.agent_state_head as head on head.active_agent_turn_id = writer.turn
    where head.turn_epoch = writer.epoch
      and head.lease_owner = writer.owner
      and head.status = 'running'
    order by head.tenant, head.agent_id
    for share of head
),
kept as (
    insert into ferryman.agent_steps (
        tenant, agent_turn_id, kind, name, nth, id, started_at, ended_at, turn_epoch, input_tokens, output_tokens, cost,
        agent_id, status, error, tool_call_ids, result, metadata)
    select mine.tenant, word.turn, word.kind, word.name, word.nth, word.id,
           clock.now - make_interval(secs => coalesce(word.seconds, 0)), clock.now, mine.turn_epoch, word.input_tokens,
           word.output_tokens, word.cost, mine.agent_id, word.status, word.error, coalesce(word.tool_call_ids, '{}'),
           word.result, word.metadata
    from clock, word
    join mine using (turn)
    on conflict do nothing
    returning tenant, agent_turn_id, agent_id, id, kind, name, nth, status, turn_epoch
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name, data)
    select clock.now, kept.agent_turn_id, kept.tenant, 'agent.step', kept.status, kept.agent_id,
           jsonb_build_object('channel', mine.active_channel_id, 'step_id', kept.id, 'kind', kept.kind, 'name', kept.name,
                              'turn_epoch', kept.turn_epoch)
    from clock, kept
    join mine on mine.turn = kept.agent_turn_id
)
select word.id, word.turn, mine.turn is not null as held
from word
left join mine using (turn)
