-- How many live rows of each domain no rule has ended in time.
select domain, rule, count(*) as count
from ferryman.overdue
group by domain, rule
order by domain, rule
