-- T19 finds: a child that lives although its parent has ended. Nothing is locked here: the cancelling statement looks again.
select step.child as id
from ferryman.task_steps as step
join ferryman.tasks as parent on parent.id = step.task
where step.child is not null
  and step.state = 'open'
  and parent.finished_at is not null
limit :limit
