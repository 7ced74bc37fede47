-- Whose these async tasks of a tenant are, or of any tenant; that never changes while they live.
select task.id, task.triggered_by_command_id as command, task.status
from ferryman.async_tasks as task
where task.id = any(:ids::uuid[])
  and (:tenant::text is null or task.tenant = :tenant::text)
