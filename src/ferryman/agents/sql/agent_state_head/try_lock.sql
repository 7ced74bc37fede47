-- Heads in the order of lock.sql, unless somebody else holds them: those are named, and are not waited for.
with word as materialized (
    select distinct given.tenant, given.agent_id
    from unnest((select :tenants::text[]), (select :agent_ids::text[])) as given (tenant, agent_id)
    order by given.tenant, given.agent_id
    limit (select 1000000)
),
held as materialized (
    select locked.*
    from (select tenant, agent_id from word order by tenant, agent_id limit (select 1000000)) as word
    cross join lateral (
        select head.tenant, head.agent_id
        from ferryman.agent_state_head as head
        where head.tenant = word.tenant
          and head.agent_id = word.agent_id
        for update skip locked
    ) as locked
)
select held.tenant, held.agent_id, true as held
from held
union all
select there.tenant, there.agent_id, false
from (select tenant, agent_id from word except select held.tenant, held.agent_id from held) as word
cross join lateral (
    select head.tenant, head.agent_id
    from ferryman.agent_state_head as head
    where head.tenant = word.tenant
      and head.agent_id = word.agent_id
    limit 1
) as there
