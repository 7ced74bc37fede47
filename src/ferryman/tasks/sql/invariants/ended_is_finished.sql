select id, state, finished_at
from ferryman.tasks
where (finished_at is not null) <> (state in ('succeeded', 'failed', 'cancelled'))
