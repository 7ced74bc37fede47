-- Of the tasks that somebody waits for: those that have ended.
select task.id, task.state, task.result, task.last_error_code, task.last_error_reason, task.attempt
from ferryman.tasks as task
where task.id = any(:ids::uuid[])
  and task.finished_at is not null
