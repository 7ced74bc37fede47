-- Finds: an async task without a command that ended longer ago than such are kept (see command_inbox/old.sql).
select task.id
from ferryman.async_tasks as task
where task.id < ferryman.id_at(ferryman.clock() - :kept::interval)
  and task.completed_at <= ferryman.clock() - :kept::interval
  and task.triggered_by_command_id is null
order by task.id
limit :limit
