-- Locks async tasks that have no command as lock.sql does, unless somebody else holds them: those are named, and are not waited for.
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
        from ferryman.async_tasks as task
        where task.id = word.id
          and task.triggered_by_command_id is null
        for update skip locked
    ) as locked
)
select held.id, true as held
from held
union all
select there.id, false
from (select id from word where id not in (select held.id from held) limit (select 1000000)) as word
cross join lateral (
    select task.id
    from ferryman.async_tasks as task
    where task.id = word.id
      and task.triggered_by_command_id is null
    limit 1
) as there
