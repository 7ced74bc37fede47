select command.id, command.status, count(task.id) filter (where task.status <> 'COMPLETED') as not_completed
from ferryman.command_inbox as command
left join ferryman.async_tasks as task on task.triggered_by_command_id = command.id
where command.status = 'COMPLETED'
group by command.id, command.status
having count(task.id) filter (where task.status <> 'COMPLETED') > 0
