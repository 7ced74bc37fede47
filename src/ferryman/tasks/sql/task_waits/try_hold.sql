-- Parents, as in hold.sql, unless somebody else holds them: those are named, and are not waited for.
with word as materialized (
    select distinct given.id
    from unnest((select :ids::uuid[])) as given (id)
    order by given.id
    limit (select 1000000)
),
held as materialized (
    select locked.id
    from (select id from word order by id limit (select 1000000)) as word
    cross join lateral (
        select task.id
        from ferryman.tasks as task
        where task.id = word.id
        for no key update skip locked
    ) as locked
)
select held.id, true as held
from held
union all
select there.id, false
from (select id from word where id not in (select held.id from held) limit (select 1000000)) as word
cross join lateral (
    select task.id
    from ferryman.tasks as task
    where task.id = word.id
    limit 1
) as there
