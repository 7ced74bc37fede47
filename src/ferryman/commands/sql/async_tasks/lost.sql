-- W14 finds: an async task that lives although the task of its capability has ended or is gone (K7). The normal path leaves none.
select async.id, task.last_error_code as code, task.last_error_reason as reason
from ferryman.async_tasks as async
left join ferryman.tasks as task on task.id = async.task
where async.completed_at is null
  and async.task is not null
  -- Asked once, not for each row: the clock is a function.
  and async.updated_at <= (select ferryman.clock() - :patience::interval)
  and (task.id is null or task.finished_at is not null)
order by async.deadline_at
limit :limit
