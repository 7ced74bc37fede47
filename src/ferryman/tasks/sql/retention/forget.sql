-- succeeded | failed | cancelled -> (nothing)
-- What belongs to a task goes with it; the log keeps its moves. Ordered by id, the order in which everybody locks tasks; a row
-- that somebody holds is left for the next walk.
with gone as materialized (
    select task.id
    from (select id from unnest((select :ids::uuid[])) as given (id) order by id limit (select 1000000)) as word
    cross join lateral (
        select each.id
        from ferryman.tasks as each
        where each.id = word.id
          and each.finished_at is not null
        for update skip locked
    ) as task
)
delete from ferryman.tasks as task
using gone
where task.id = gone.id
returning task.id
