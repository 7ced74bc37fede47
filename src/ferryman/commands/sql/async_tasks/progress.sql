-- How far an async task is whose work is done outside; one that has ended is not touched.
update ferryman.async_tasks as task
set progress = :percent::float8, updated_at = ferryman.clock()
where task.id = :id
  and task.tenant = :tenant
  and task.task is null
  and task.status in ('PENDING', 'RUNNING')
returning task.id
