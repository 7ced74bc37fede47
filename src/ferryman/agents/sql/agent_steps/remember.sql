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
    select word.*, head.tenant, head.agent_id, head.active_channel_id
    from word
    join ferryman.agent_state_head as head on head.active_agent_turn_id = word.turn
    where head.turn_epoch = word.epoch
      and head.lease_owner = word.owner
      and head.status = 'running'
    order by head.tenant, head.agent_id
    for share of head
),
kept as (
    insert into ferryman.agent_steps (
        tenant, agent_turn_id, kind, name, nth, id, started_at, ended_at, turn_epoch, input_tokens, output_tokens, cost,
        agent_id, status, error, tool_call_ids, result, metadata)
    select mine.tenant, mine.turn, mine.kind, mine.name, mine.nth, mine.id,
           clock.now - make_interval(secs => coalesce(mine.seconds, 0)), clock.now, mine.epoch, mine.input_tokens,
           mine.output_tokens, mine.cost, mine.agent_id, mine.status, mine.error, coalesce(mine.tool_call_ids, '{}'),
           mine.result, mine.metadata
    from mine, clock
    on conflict do nothing
    returning id
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name, data)
    select clock.now, mine.turn, mine.tenant, 'agent.step', mine.status, mine.agent_id,
           jsonb_build_object('channel', mine.active_channel_id, 'step_id', mine.id, 'kind', mine.kind, 'name', mine.name,
                              'turn_epoch', mine.epoch)
    from mine, clock
    where (mine.id in (select kept.id from kept)) is true
)
select word.id, word.turn, word.id in (select mine.id from mine) as held
from word
