-- The async task that a result without an id means: the newest live one of the command whose type is that of the result, else the
-- newest whose type begins with it, segment by segment. No pattern is made of what was sent.
select task.id
from ferryman.async_tasks as task
where task.triggered_by_command_id = :command
  and task.tenant = :tenant
  and task.status in ('PENDING', 'RUNNING')
  and (task.task_type = :type::text or starts_with(task.task_type, :type::text || '.'))
order by task.task_type = :type::text desc, task.created_at desc, task.id desc
limit 1
