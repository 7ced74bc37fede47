select id, state, rank, wake_at, leased_until
from ferryman.tasks
where num_nonnulls(rank, wake_at, leased_until) <> case when state in ('pending', 'ready', 'running') then 1 else 0 end
