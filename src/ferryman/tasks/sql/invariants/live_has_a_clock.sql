-- A lease ends with its attempt: at its timeout and a margin, of which a minute is more than any.
select id, state, ends_at, leased_until
from ferryman.tasks
where leased_until is not null
  and (not isfinite(leased_until) or leased_until > started_at + timeout_ms * interval '1 ms' + interval '1 minute')
union all
select id, state, ends_at, leased_until
from ferryman.tasks
where finished_at is null
  and leased_until is null
  and not isfinite(ends_at)
