-- How many tasks wait or run, by tenant and queue, and since when the oldest is due. Bounded: a backlog of many millions is told
-- by its first million. Two branches, each with the condition of one partial index: what has ended is not read.
select live.tenant, live.queue, live.state, count(*)::integer as count, min(live.due_at) as oldest_due_at
from (
    (
        select task.tenant, task.queue, task.state, task.due_at
        from ferryman.tasks as task
        where task.leased_until is not null
        limit 1000000
    )
    union all
    (
        select task.tenant, task.queue, task.state, task.due_at
        from ferryman.tasks as task
        where task.finished_at is null
          and task.leased_until is null
        limit 1000000
    )
) as live
group by live.tenant, live.queue, live.state
