-- Whom the ends of these tasks are owed to. The limit keeps the planner at one lookup a row (see turn.sql).
select task.callback, task.callback_ref
from (select id from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
join ferryman.tasks as task using (id)
where task.callback is not null
