-- T19 finds: a parked task that waits for nothing any more: fewer of its children live than must end, or its event is there.
select task.id
from ferryman.task_waits as wait
join ferryman.tasks as task on task.id = wait.task
where task.epoch = wait.epoch
  and task.state = 'ready'
  and task.wake_at is not null
  and (wait.open > (select count(*) from ferryman.task_steps as step
                    where step.child = any(wait.children) and step.child is not null and step.state = 'open')
       or wait.open = 0
       or exists (select from ferryman.task_signals as signal
                  where signal.task = wait.task and signal.name = any(wait.names)))
limit :limit
