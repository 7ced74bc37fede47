-- Of the tasks that somebody waits for: those that have ended. The limit keeps the planner at one lookup a row (see turn.sql).
select task.id, task.state, task.result, task.last_error_code, task.last_error_reason, task.attempt
from (select id, :tenant::text as tenant from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
join ferryman.tasks as task using (id, tenant)
where task.finished_at is not null
