-- Locks commands as lock.sql does, unless somebody else holds them: those are named, and are not waited for.
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
        select command.id
        from ferryman.command_inbox as command
        where command.id = word.id
        for update skip locked
    ) as locked
)
select held.id, true as held
from held
union all
select there.id, false
from (select id from word where id not in (select held.id from held) limit (select 1000000)) as word
cross join lateral (
    select command.id
    from ferryman.command_inbox as command
    where command.id = word.id
    limit 1
) as there
