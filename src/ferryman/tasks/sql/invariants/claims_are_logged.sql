-- Each claim makes the fence grow by one. Only tasks whose birth is still in the log: retention may have dropped the claims of older ones.
select task.id, task.epoch, count(event.id) filter (where event.to_state = 'running') as claims
from ferryman.tasks as task
join ferryman.events as event on event.subject = task.id and event.kind = 'task'
group by task.id, task.epoch
having bool_or(event.from_state is null and event.to_state is not null)
   and task.epoch <> count(event.id) filter (where event.to_state = 'running')
