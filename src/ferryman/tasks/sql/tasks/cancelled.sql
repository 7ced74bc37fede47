-- Of these tasks of a tenant: how long ago each was cancelled.
-- The limit keeps the planner at one lookup a row (see turn.sql).
select task.id, ferryman.clock() - task.finished_at as age
from (select id, :tenant::text as tenant from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
join ferryman.tasks as task on task.id = word.id and task.tenant = word.tenant
where task.state = 'cancelled'
