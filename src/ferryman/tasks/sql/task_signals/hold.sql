-- The task that an event is for, locked, so that it neither parks nor ends meanwhile.
select task.id, coalesce(task.task_id, task.id::text) as task_id, task.state
from ferryman.tasks as task
where task.tenant = :tenant
  and (task.id = :id or task.task_id = :task_id)
for no key update
