-- Which of these tasks somebody else holds now, so that nothing that belongs to them can be written. Nobody is waited for.
-- By primary key (see turn.sql).
with word as materialized (
    select given.id
    from unnest((select :ids::uuid[])) as given (id)
    limit (select 1000000)
),
free as materialized (
    select task.id
    from word
    join ferryman.tasks as task on task.id = word.id
    for key share of task skip locked
)
select task.id
from word
join ferryman.tasks as task on task.id = word.id
where task.id not in (select free.id from free)
