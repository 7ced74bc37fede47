-- What happened to tasks between two places of the log, by second: births and ends, as births and states reached.
-- The range of ids is short; times of a moved clock count as they are told.
select event.tenant, date_trunc('second', event.at) as second, coalesce(event.to_state, '') as state,
       event.from_state is null as born, count(*)::integer as count
from ferryman.events as event
where event.id > :after
  and event.id <= :upto
  and event.kind = 'task'
group by 1, 2, 3, 4
