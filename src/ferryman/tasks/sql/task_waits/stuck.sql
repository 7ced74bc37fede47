-- T19 finds: a parked task that waits for nothing any more: fewer of its children live than must end, or its event is there.
-- A page of a walk along the primary key, from where the last one stopped. Whoever holds the place walks; the others find nothing.
with clock as materialized (
    select ferryman.clock() as now
),
walk as materialized (
    select place.after_id
    from ferryman.retention as place, clock
    where place.domain = 'stuck'
      and (place.next_at <= clock.now or place.next_at > clock.now + :pace::interval)
    for update of place skip locked
),
page as materialized (
    select wait.task as id, wait.epoch, wait.open, wait.children, wait.names
    from walk
    cross join lateral (
        select each.*
        from ferryman.task_waits as each
        where each.task > walk.after_id
        order by each.task
        limit :span
    ) as wait
),
found as materialized (
    select page.id
    from page
    cross join lateral (
        select each.epoch, each.state, each.wake_at
        from ferryman.tasks as each
        where each.id = page.id
        limit 1
    ) as task
    where task.epoch = page.epoch
      and task.state = 'ready'
      and task.wake_at is not null
      and (page.open > (select count(*) from ferryman.task_steps as step
                        where step.child = any(page.children) and step.child is not null and step.state = 'open')
           or page.open = 0
           or exists (select from ferryman.task_signals as signal
                      where signal.task = page.id and signal.name = any(page.names)))
    order by page.id
    limit :limit
),
reached as materialized (
    select case when (select count(*) from found) = :limit then (select found.id from found order by found.id desc limit 1)
                when (select count(*) from page) = :span then (select page.id from page order by page.id desc limit 1)
           end as id,
           (select count(*) from found) = :limit as full_set
),
moved as (
    update ferryman.retention as place
    set after_id = coalesce(reached.id, '00000000-0000-0000-0000-000000000000'),
        next_at = clock.now + case when reached.full_set then interval '0' else :pace::interval end
    from clock, walk, reached
    where place.domain = 'stuck'
)
select found.id
from found
