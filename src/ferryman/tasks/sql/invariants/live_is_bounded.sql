select task.id, task.state
from ferryman.tasks as task
where task.state not in ('succeeded', 'failed', 'cancelled')
  and not exists (select from ferryman.bounds as bound where bound.domain = 'task' and bound.id = task.id)
