-- The log of one task, in order.
select log.id, log.attempt, log.at, log.level, log.message
from ferryman.task_logs as log
join ferryman.tasks as task on task.id = log.task
where log.task = :task
  and task.tenant = :tenant
  and log.id > :after
order by log.id
limit :limit
