select id, state, lease_owner, leased_until
from ferryman.tasks
where leased_until is not null
  and (state <> 'running' or lease_owner is null)
union all
select id, state, lease_owner, leased_until
from ferryman.tasks
where finished_at is null
  and leased_until is null
  and (state = 'running' or lease_owner is not null)
