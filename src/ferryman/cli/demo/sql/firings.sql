-- What each schedule of the story counted, what tasks it has, for how many different times, and how many times lie between.
select schedule.missed, task.tasks, task.times, task.due
from ferryman.schedules as schedule
cross join lateral (
    select count(*) as tasks, count(distinct task.fire_time) as times,
           coalesce(extract(epoch from max(task.fire_time) - min(task.fire_time))::integer + 1, 0) as due
    from ferryman.tasks as task
    where task.schedule = schedule.id
) as task
where schedule.schedule_type = 'every'
