-- How many tasks wait or run, by queue, and how long the oldest of each has been due: for people, who want the whole number.
select task.queue, task.state, count(*) as count,
       extract(epoch from ferryman.clock() - min(task.due_at))::float8 as oldest_seconds
from ferryman.tasks as task
where task.finished_at is null
group by task.queue, task.state
order by task.queue, task.state
