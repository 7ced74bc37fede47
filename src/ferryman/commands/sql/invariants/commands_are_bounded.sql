-- With a time that comes: a deadline that is infinite ends nothing.
select command.id, command.status
from ferryman.command_inbox as command
where command.finished_at is null
  and not exists (
      select from ferryman.bounds_commands as bound
      where bound.domain = 'command' and bound.id = command.id and isfinite(bound.ends_by))
union all
select task.id, task.status
from ferryman.async_tasks as task
where task.completed_at is null
  and not exists (
      select from ferryman.bounds_commands as bound
      where bound.domain = 'async_task' and bound.id = task.id and isfinite(bound.ends_by))
