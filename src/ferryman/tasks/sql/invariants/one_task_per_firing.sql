select schedule, fire_time, count(*) as tasks
from ferryman.tasks
where schedule is not null
group by schedule, fire_time
having count(*) > 1
