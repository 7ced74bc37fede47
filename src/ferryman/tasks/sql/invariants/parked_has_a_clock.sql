-- At its ends_at a parked task is woken and cancelled (T21); a wait for longer is refused.
select task.id, task.state, task.wake_at, task.ends_at
from ferryman.task_waits as wait
join ferryman.tasks as task on task.id = wait.task
where task.epoch = wait.epoch
  and task.finished_at is null
  and (num_nonnulls(task.rank, task.wake_at, task.leased_until) <> 1 or task.wake_at > task.ends_at)
