-- Every live object with the rule that ends it and by when, the soonest first.
select domain, id, tenant, state, rule, ends_by, terminal_by
from ferryman.bounds
order by ends_by, id
limit :limit
