-- What is owed: its first step while it is received, its live async tasks, and what follows their results and has not ended.
select command.id, command.open, owed.count
from ferryman.command_inbox as command
cross join lateral (
    select (select count(*) from ferryman.tasks as step
            where step.id = command.task and step.finished_at is null)
         + (select count(*) from ferryman.async_tasks as task
            where task.triggered_by_command_id = command.id and task.completed_at is null)
         + (select count(*) from ferryman.async_tasks as task join ferryman.tasks as step on step.id = task.follow_up
            where task.triggered_by_command_id = command.id and step.finished_at is null) as count
) as owed
where command.finished_at is null
  and command.open <> owed.count
