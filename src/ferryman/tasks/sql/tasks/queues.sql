-- How many tasks wait or run, by queue, and how long the oldest of each has been due: for people, who want the whole number.
-- Two branches, each with the condition of one partial index: what has ended is not read.
select live.queue, live.state, count(*) as count,
       extract(epoch from ferryman.clock() - min(live.due_at))::float8 as oldest_seconds
from (
    select task.queue, task.state, task.due_at
    from ferryman.tasks as task
    where task.leased_until is not null
    union all
    select task.queue, task.state, task.due_at
    from ferryman.tasks as task
    where task.finished_at is null
      and task.leased_until is null
) as live
group by live.queue, live.state
order by live.queue, live.state
