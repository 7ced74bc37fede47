-- Of the tasks that somebody waits for: those that have ended, and those that are not there any more (state null).
select word.id, task.state, task.result, task.last_error_code, task.last_error_reason, task.attempt
from unnest(:ids::uuid[]) as word (id)
left join ferryman.tasks as task on task.id = word.id
where task.id is null
   or task.finished_at is not null
