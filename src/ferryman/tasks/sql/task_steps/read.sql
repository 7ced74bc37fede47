-- What a task remembers of its durable calls, in the order in which they were made.
select step.kind, step.name, step.nth, step.state, step.at, step.until, step.child, step.result::text as result
from ferryman.task_steps as step
join ferryman.tasks as task on task.id = step.task
where step.task = :task
  and task.tenant = :tenant
order by step.at, step.position, step.kind, step.name, step.nth
limit :limit
