select task.id, task.status, command.id as command, command.status as command_status
from ferryman.async_tasks as task
join ferryman.command_inbox as command on command.id = task.triggered_by_command_id
where task.completed_at is null
  and command.finished_at is not null
