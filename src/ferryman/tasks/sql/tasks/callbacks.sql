-- Whom the ends of these tasks are owed to.
select task.callback, task.callback_ref
from ferryman.tasks as task
where task.id = any(:ids::uuid[])
  and task.callback is not null
