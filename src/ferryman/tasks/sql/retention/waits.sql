-- T20 finds: what a task waited for that has gone on since, or has ended. A page of a walk along the primary key, as that of tasks.
with clock as materialized (
    select ferryman.clock() as now
),
walk as materialized (
    select place.after_id
    from ferryman.retention as place, clock
    where place.domain = 'wait'
      and (place.next_at <= clock.now or place.next_at > clock.now + :rest::interval)
    for update of place skip locked
),
page as materialized (
    select wait.task as id, wait.epoch
    from walk
    cross join lateral (
        select each.task, each.epoch
        from ferryman.task_waits as each
        where each.task > walk.after_id
        order by each.task
        limit :span
    ) as wait
),
past as materialized (
    select page.id, page.epoch
    from page
    cross join lateral (
        select each.epoch, each.finished_at
        from ferryman.tasks as each
        where each.id = page.id
        limit 1
    ) as task
    where task.epoch > page.epoch
       or task.finished_at is not null
    order by page.id
    limit :limit
),
reached as materialized (
    select case when (select count(*) from past) = :limit then (select past.id from past order by past.id desc limit 1)
                when (select count(*) from page) = :span then (select page.id from page order by page.id desc limit 1)
           end as id,
           (select count(*) from past) = :limit as full_set
),
moved as (
    update ferryman.retention as place
    set after_id = coalesce(reached.id, '00000000-0000-0000-0000-000000000000'),
        next_at = clock.now + case when reached.full_set then interval '0' else :rest::interval end
    from clock, walk, reached
    where place.domain = 'wait'
)
select past.id, past.epoch
from past
