select subject as id, from_state, to_state, id as event
from ferryman.events
where kind = 'task'
  and to_state is not null
  and (coalesce(from_state, 'nothing'), to_state) not in (
      ('nothing', 'pending'), ('nothing', 'ready'), ('pending', 'ready'), ('ready', 'running'),
      ('running', 'succeeded'), ('running', 'failed'), ('running', 'ready'),
      ('pending', 'cancelled'), ('ready', 'cancelled'), ('running', 'cancelled'))
