-- Of the tasks that somebody waits for: those that have ended, and those that are not there, or not any more (state null).
-- The limit keeps the planner at one lookup a row (see turn.sql).
select word.id, task.state, task.result, task.last_error_code, task.last_error_reason, task.attempt
from (select id, :tenant::text as tenant from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
left join ferryman.tasks as task on task.id = word.id and task.tenant = word.tenant
where task.id is null
   or task.finished_at is not null
