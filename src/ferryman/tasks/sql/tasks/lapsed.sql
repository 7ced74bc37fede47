-- W13 finds: running, but the lease has passed (and with it the timeout: a lease is never longer).
-- What is owed to an owner that this process does not know is left to one that does. Nothing is locked here: parents are locked before tasks, so the settling statement looks again.
select task.id, task.epoch, task.lease_owner, task.attempt, task.max_retries, task.backoff, task.callback, task.callback_ref,
       task.started_at + task.timeout_ms * interval '1 ms' <= ferryman.clock() as timed_out,
       extract(epoch from task.leased_until - ferryman.clock())::float8 as left_seconds
from ferryman.tasks as task
-- Also those that will pass before the next look, so that this one can come in time: kernel/watchdog/recent.py.
where task.leased_until <= ferryman.clock() + :ahead::interval
  -- Of those that have passed within a time, or ever: kernel/watchdog/recent.py.
  and task.leased_until > coalesce(ferryman.clock() - :within::interval, '-infinity')
  and (task.callback is null or task.callback = any(:kinds::text[]))
order by task.leased_until
limit :limit
