-- Live objects that no rule has ended in time: a defect of ours.
select domain, rule, count(*) as count, min(ends_by) as since
from ferryman.overdue
group by domain, rule
order by domain, rule
