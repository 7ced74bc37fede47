-- The tasks of a queue's line that are to make room: those that wait longest, then those that have run longest. What owes its end
-- to somebody is spared. Three branches, each with the condition of one partial index.
select line.id
from (
    select task.id, task.created_at, false as runs
    from ferryman.tasks as task
    where task.queue = :queue and task.tenant = :tenant and task.rank is not null and task.limit_key is null
      and task.callback is null
    union all
    select task.id, task.created_at, false
    from ferryman.tasks as task
    where task.queue = :queue and task.tenant = :tenant and task.rank is not null and task.limit_key is not null
      and task.callback is null
    union all
    select task.id, task.started_at, true
    from ferryman.tasks as task
    where task.queue = :queue and task.tenant = :tenant and task.slot and task.leased_until is not null
      and task.callback is null
) as line
order by line.runs, line.created_at, line.id
limit :limit
