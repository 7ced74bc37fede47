-- Whom the ends of these tasks are owed to: their parents are locked next, so another tenant's must not be among them.
-- One lookup a row: the planner cannot pull the inner select up, whatever it thinks of the tenant.
select task.callback, task.callback_ref
from unnest(:ids::uuid[]) as word (id)
cross join lateral (
    select each.tenant, each.callback, each.callback_ref
    from ferryman.tasks as each
    where each.id = word.id
    offset 0
) as task
where task.callback is not null
  and (:tenant::text is null or task.tenant = :tenant::text)
