-- T21 finds: still waiting at its ends_at.
-- Nothing is locked here: parents are locked before tasks, so the cancelling statement looks again.
select task.id, task.callback, task.callback_ref
from ferryman.tasks as task
where task.ends_at <= ferryman.clock()
  and task.finished_at is null
  and task.leased_until is null
order by task.ends_at
limit :limit
