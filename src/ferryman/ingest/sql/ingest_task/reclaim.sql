-- What is leased to a worker that does not know of it, because an answer never came.
select task.id, task.epoch, task.lease_owner, task.tenant, task.source
from ferryman.ingest_task as task
where task.leased_until is not null
  and task.lease_owner = :owner
  and task.id <> all(:held::uuid[])
order by task.id
for update of task
