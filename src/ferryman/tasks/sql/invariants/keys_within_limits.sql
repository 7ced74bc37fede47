-- Of what has started since its limit was last changed: a limit that is lowered by hand lets go on what runs.
select task.queue, task.tenant, task.limit_key, count(*) as held
from ferryman.tasks as task
left join ferryman.queues as whole on whole.name = task.queue and whole.tenant = '*'
left join ferryman.queues as own on own.name = task.queue and own.tenant = task.tenant
where task.slot
  and task.leased_until is not null
  and task.limit_key is not null
  and task.started_at > greatest(whole.updated_at, own.updated_at)
group by task.queue, task.tenant, task.limit_key
having count(*) > max(coalesce(own.key_concurrency, whole.key_concurrency, 1))
