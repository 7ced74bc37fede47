-- T21 finds: still waiting at its ends_at.
-- What is owed to an owner that this process does not know is left to one that does. Nothing is locked here: parents are locked before tasks, so the cancelling statement looks again.
select task.id, task.callback, task.callback_ref
from ferryman.tasks as task
where task.ends_at <= ferryman.clock()
  and task.finished_at is null
  and task.leased_until is null
  and (task.callback is null or task.callback = any(:kinds::text[]))
order by task.ends_at
limit :limit
