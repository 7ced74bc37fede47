-- Live objects that no rule has ended in time, the oldest first.
select domain, id, tenant, state, rule, ends_by
from ferryman.overdue
order by ends_by, id
limit :limit
