select task.id, task.tenant, schedule.tenant as schedule_tenant
from ferryman.tasks as task
join ferryman.schedules as schedule on schedule.id = task.schedule
where task.tenant <> schedule.tenant
