-- Batches in the order of lock.sql, unless somebody else holds them: those are named without their state, and are not waited for.
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
        for update skip locked
    ) as locked
)
select held.id, held.tenant, held.status, held.fail_fast, held.parent_agent_id
from held
union all
select there.id, null, null, null, null
from (select id from word where id not in (select held.id from held) limit (select 1000000)) as word
cross join lateral (
    select batch.id
    from ferryman.pmo_batches as batch
    where batch.id = word.id
    limit 1
) as there
