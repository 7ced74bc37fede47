-- Of what has started since its limit was last changed: a limit that is lowered by hand lets go on what runs.
select queue.name, queue.tenant, queue.concurrency, count(*) as held
from ferryman.queues as queue
join ferryman.tasks as task on task.queue = queue.name and (queue.tenant = '*' or task.tenant = queue.tenant)
where task.slot
  and task.leased_until is not null
  and task.started_at > queue.updated_at
group by queue.name, queue.tenant, queue.concurrency
having count(*) > queue.concurrency
