-- Whom the ends of these tasks are owed to: their parents are locked next, so another tenant's must not be among them.
-- The limit keeps the planner at one lookup a row (see turn.sql).
select task.callback, task.callback_ref
from (select id from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
join ferryman.tasks as task using (id)
where task.callback is not null
  and (:tenant::text is null or task.tenant = :tenant::text)
