-- Who of a tenant holds slots of a queue, and until when at the latest if its worker is gone: those whose lease ends first.
-- Of other tenants' tasks the number is told elsewhere, and nothing else (list.sql).
select task.id, coalesce(task.task_id, task.id::text) as task_id, task.tenant, task.name, task.limit_key, task.lease_owner,
       task.started_at, task.leased_until
from ferryman.tasks as task
where task.queue = :queue
  and task.tenant = :tenant
  and task.slot
  and task.leased_until is not null
order by task.leased_until, task.id
limit :limit
