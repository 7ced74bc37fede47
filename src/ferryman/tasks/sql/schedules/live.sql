-- Which of these schedules have a task that has not ended.
select distinct task.schedule
from ferryman.tasks as task
where task.schedule = any(:ids::uuid[])
  and task.finished_at is null
