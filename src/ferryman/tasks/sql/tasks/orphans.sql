-- Waiting tasks that no living worker would take: nobody serves their queue, or nobody there knows their handler.
-- Reads what lives, not what has ended: the condition is that of the index tasks_ending.
with waiting as materialized (
    select task.queue, task.name, count(*) as count, min(task.due_at) as due_at, min(task.ends_at) as ends_at
    from ferryman.tasks as task
    where task.finished_at is null
      and task.leased_until is null
    group by task.queue, task.name
),
served as materialized (
    select distinct queue, handler
    from ferryman.workers as worker
    cross join lateral unnest(worker.queues) as queue
    cross join lateral unnest(worker.handlers) as handler
    where worker.seen_until >= ferryman.clock()
)
select waiting.queue, waiting.name, waiting.count, waiting.due_at, waiting.ends_at,
       exists (select from served where served.queue = waiting.queue) as queue_served
from waiting
where not exists (select from served where served.queue = waiting.queue and served.handler = waiting.name)
order by waiting.due_at
