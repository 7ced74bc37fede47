select subject as id, count(*) filter (where to_state in ('succeeded', 'failed', 'cancelled')) as ends
from ferryman.events
where kind = 'task'
  and to_state is not null
group by subject
having count(*) filter (where to_state in ('succeeded', 'failed', 'cancelled')) > 1
    or max(id) filter (where to_state in ('succeeded', 'failed', 'cancelled')) < max(id)
