-- W14 finds: an async task past its deadline. Nothing is locked here: the settling statement looks again.
select task.id
from ferryman.async_tasks as task
where task.deadline_at <= ferryman.clock()
  and task.completed_at is null
order by task.deadline_at
limit :limit
