-- A retry is logged with the attempt that ended; the row has moved on to the next.
select task.id, task.state, task.attempt, last.to_state as logged_state, last.attempt as logged_attempt
from ferryman.tasks as task
cross join lateral (
    select event.from_state, event.to_state, event.attempt
    from ferryman.events as event
    where event.subject = task.id
      and event.kind = 'task'
      and event.to_state is not null
    order by event.id desc
    limit 1
) as last
where task.state <> last.to_state
   or not (task.attempt = last.attempt
           or (last.from_state = 'running' and last.to_state = 'ready' and task.attempt = last.attempt + 1))
