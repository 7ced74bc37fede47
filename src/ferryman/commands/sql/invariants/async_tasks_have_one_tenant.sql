select async.id, async.tenant, command.tenant as command_tenant, task.tenant as task_tenant
from ferryman.async_tasks as async
left join ferryman.command_inbox as command on command.id = async.triggered_by_command_id
left join ferryman.tasks as task on task.id = async.task
where command.tenant <> async.tenant
   or task.tenant <> async.tenant
