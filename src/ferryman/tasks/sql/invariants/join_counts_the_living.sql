-- Of several joins at once the smallest counts, so a count may be less than the number of children that live.
select task.id, wait.open, cardinality(wait.children) as children
from ferryman.task_waits as wait
join ferryman.tasks as task on task.id = wait.task
where task.epoch = wait.epoch
  and task.state = 'ready'
  and task.wake_at is not null
  and wait.open is not null
  and (wait.open < 1
       or wait.open > (select count(*) from ferryman.task_steps as step
                       where step.child = any(wait.children) and step.child is not null and step.state = 'open'))
