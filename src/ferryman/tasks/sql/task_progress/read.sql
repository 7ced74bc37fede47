-- How far the tasks are that somebody watches. The limit keeps the planner at one lookup a row (see turn.sql).
select task.id, task.state, progress.percent, progress.message
from (select id, :tenant::text as tenant from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
join ferryman.tasks as task using (id, tenant)
left join ferryman.task_progress as progress on progress.id = task.id
