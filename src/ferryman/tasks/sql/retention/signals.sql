-- T20 finds: events that were sent to a task which has ended: nothing will take them. A page of a walk by tasks.
with clock as materialized (
    select ferryman.clock() as now
),
walk as materialized (
    select place.after_id
    from ferryman.retention as place, clock
    where place.domain = 'signal'
      and (place.next_at <= clock.now or place.next_at > clock.now + :rest::interval)
    for update of place skip locked
),
page as materialized (
    select signal.task, signal.id
    from walk
    cross join lateral (
        select each.task, each.id
        from ferryman.task_signals as each
        where each.task > walk.after_id
        order by each.task
        limit :span
    ) as signal
),
past as materialized (
    select page.task, page.id
    from page
    cross join lateral (
        select each.finished_at
        from ferryman.tasks as each
        where each.id = page.task
        limit 1
    ) as task
    where task.finished_at is not null
    order by page.task
    limit :limit
),
reached as materialized (
    select case when (select count(*) from past) = :limit then (select past.task from past order by past.task desc limit 1)
                when (select count(*) from page) = :span then (select page.task from page order by page.task desc limit 1)
           end as task,
           (select count(*) from past) = :limit as full_set
),
moved as (
    update ferryman.retention as place
    set after_id = coalesce(reached.task, '00000000-0000-0000-0000-000000000000'),
        next_at = clock.now + case when reached.full_set then interval '0' else :rest::interval end
    from clock, walk, reached
    where place.domain = 'signal'
)
select past.id
from past
