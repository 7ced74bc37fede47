-- The youngest task that waits in a queue's line. Two branches, each with the condition of one partial index.
select line.id
from (
    select task.id, task.created_at
    from ferryman.tasks as task
    where task.queue = :queue and task.tenant = :tenant and task.rank is not null and task.limit_key is null
    union all
    select task.id, task.created_at
    from ferryman.tasks as task
    where task.queue = :queue and task.tenant = :tenant and task.rank is not null and task.limit_key is not null
) as line
order by line.created_at desc, line.id desc
limit 1
