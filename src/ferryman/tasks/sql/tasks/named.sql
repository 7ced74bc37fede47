-- Which tasks of a tenant the names stand for that their creators gave them.
select task.id, task.task_id
from unnest((select :task_ids::text[])) as word (name)
cross join lateral (
    select each.id, each.task_id
    from ferryman.tasks as each
    where each.tenant = :tenant
      and each.task_id = word.name
    limit 1
) as task
