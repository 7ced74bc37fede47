-- Which rule ends this object, and by when.
select domain, id, tenant, state, rule, ends_by, terminal_by
from ferryman.bounds
where id = :id
