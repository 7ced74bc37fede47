select subject as id, kind, count(*) filter (where to_state in ('COMPLETED', 'FAILED', 'CANCELLED')) as ends
from ferryman.events
where kind in ('command', 'async_task')
group by subject, kind
having count(*) filter (where to_state in ('COMPLETED', 'FAILED', 'CANCELLED')) > 1
    or max(id) filter (where to_state in ('COMPLETED', 'FAILED', 'CANCELLED')) < max(id)
