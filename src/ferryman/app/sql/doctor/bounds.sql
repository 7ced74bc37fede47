-- Live objects by state: which rule ends them, what that one does, and when to the first and the last of them.
select domain, state, rule, count(*) as count, min(ends_by) as soonest, max(terminal_by) as terminal_by, ferryman.promise(rule) as does
from ferryman.bounds
group by domain, state, rule
order by domain, state, rule
