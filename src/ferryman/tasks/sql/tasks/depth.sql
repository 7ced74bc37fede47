-- How many tasks wait or run, by queue: for metrics. Bounded, because a backlog of many millions is told by its first million.
select live.queue, live.state, count(*) as count
from (
    select task.queue, task.state
    from ferryman.tasks as task
    where task.finished_at is null
    limit 1000000
) as live
group by live.queue, live.state
