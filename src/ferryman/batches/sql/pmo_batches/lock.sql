-- Batches in the order in which everybody locks them: before their tasks, and before any head (B13).
with word as materialized (
    select distinct given.id
    from unnest((select :ids::uuid[])) as given (id)
    order by given.id
    limit (select 1000000)
),
held as materialized (
    select locked.*
    from (select id from word order by id limit (select 1000000)) as word
    cross join lateral (
        select batch.id, batch.tenant, batch.status, batch.fail_fast, batch.parent_agent_id
        from ferryman.pmo_batches as batch
        where batch.id = word.id
        for update
    ) as locked
)
select held.id, held.tenant, held.status, held.fail_fast, held.parent_agent_id
from held
