-- Waiting tasks that no living worker would take: nobody serves their queue, or nobody there knows their handler. A remote worker
-- serves one tenant alone.
-- Reads what lives, not what has ended: the condition is that of the index tasks_ending.
with waiting as materialized (
    select task.tenant, task.queue, task.name, count(*) as count, min(task.due_at) as due_at, min(task.ends_at) as ends_at
    from ferryman.tasks as task
    where task.finished_at is null
      and task.leased_until is null
    group by task.tenant, task.queue, task.name
),
served as materialized (
    select distinct worker.tenant, queue, handler
    from ferryman.workers as worker
    cross join lateral unnest(worker.queues) as queue
    cross join lateral unnest(worker.handlers) as handler
    where worker.seen_until >= ferryman.clock()
)
select waiting.queue, waiting.name, sum(waiting.count)::bigint as count, min(waiting.due_at) as due_at, min(waiting.ends_at) as ends_at,
       bool_and(exists (select from served
                        where served.queue = waiting.queue
                          and coalesce(served.tenant, waiting.tenant) = waiting.tenant)) as queue_served
from waiting
where not exists (select from served
                  where served.queue = waiting.queue
                    and served.handler = waiting.name
                    and coalesce(served.tenant, waiting.tenant) = waiting.tenant)
group by waiting.queue, waiting.name
order by min(waiting.due_at)
