-- An agent and its idle head; one that exists stays as it is.
with clock as materialized (
    select ferryman.clock() as now
),
word as (
    select *
    from jsonb_to_recordset(:agents::jsonb) as given (
        id uuid, tenant text, agent_id text, profile text, worker_target text, when_busy text, derived_from text, tags text[],
        metadata jsonb)
),
born as (
    insert into ferryman.agents (id, tenant, agent_id, created_at, profile, worker_target, when_busy, derived_from, tags, metadata)
    select word.id, word.tenant, word.agent_id, clock.now, word.profile, word.worker_target, word.when_busy, word.derived_from,
           coalesce(word.tags, '{}'), coalesce(word.metadata, '{}')
    from word, clock
    order by word.tenant, word.agent_id
    on conflict do nothing
    returning id, tenant, agent_id, profile, worker_target
),
heads as (
    insert into ferryman.agent_state_head (id, tenant, agent_id, updated_at, since_at, profile, worker_target)
    select born.id, born.tenant, born.agent_id, clock.now, clock.now, born.profile, born.worker_target
    from born, clock
    on conflict do nothing
)
select tenant, agent_id
from born
