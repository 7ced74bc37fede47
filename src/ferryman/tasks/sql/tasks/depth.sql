-- How many tasks wait or run, by queue: for metrics. Bounded: a backlog of many millions is told by its first million.
-- Two branches, each with the condition of one partial index: what has ended is not read.
select live.queue, live.state, count(*) as count
from (
    (
        select task.queue, task.state
        from ferryman.tasks as task
        where task.leased_until is not null
        limit :most
    )
    union all
    (
        select task.queue, task.state
        from ferryman.tasks as task
        where task.finished_at is null
          and task.leased_until is null
        limit :most
    )
) as live
group by live.queue, live.state
