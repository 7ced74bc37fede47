-- The children of these tasks that live, for their parents have ended.
select step.child
from (select id from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
join ferryman.task_steps as step on step.task = word.id
where step.kind = 'child'
  and step.state = 'open'
order by step.child
