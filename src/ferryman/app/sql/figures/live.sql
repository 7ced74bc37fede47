-- How many tasks wait or run, by tenant and queue, and since when the oldest is due. Bounded: a backlog of many millions is told
-- by its first million. Two branches, each with the condition of one partial index: what has ended is not read. What is parked
-- or backing off is counted with what is not due yet: no worker could take it.
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
        select task.tenant, task.queue, case when task.wake_at is null then task.state else 'pending' end as state, task.due_at
        from ferryman.tasks as task
        where task.finished_at is null
          and task.leased_until is null
        limit 1000000
    )
) as live
group by live.tenant, live.queue, live.state
