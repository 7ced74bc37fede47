-- How far the tasks are that somebody watches.
select task.id, task.state, progress.percent, progress.message
from ferryman.tasks as task
left join ferryman.task_progress as progress on progress.id = task.id
where task.id = any(:ids::uuid[])
