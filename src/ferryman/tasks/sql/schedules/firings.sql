-- The latest tasks of a schedule, the newest firing first.
select task.id, coalesce(task.task_id, task.id::text) as task_id, task.fire_time, task.state, task.attempt, task.created_at,
       task.started_at, task.finished_at, task.last_error_code, task.last_error_reason
from ferryman.tasks as task
where task.schedule = :id
  and task.tenant = :tenant
order by task.fire_time desc
limit :limit
