-- T20 finds: a schedule that ended longer ago than it is kept. A page of a walk along the primary key, as that of tasks.
with clock as materialized (
    select ferryman.clock() as now
),
walk as materialized (
    select place.after_id
    from ferryman.retention as place, clock
    where place.domain = 'schedule'
      and (place.next_at <= clock.now or place.next_at > clock.now + :rest::interval)
    for update of place skip locked
),
page as materialized (
    select schedule.id, schedule.ended_at
    from walk
    cross join lateral (
        select each.id, each.ended_at
        from ferryman.schedules as each
        where each.id > walk.after_id
        order by each.id
        limit :span
    ) as schedule
),
past as materialized (
    select page.id
    from page, clock
    where page.ended_at <= clock.now - :kept::interval
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
    where place.domain = 'schedule'
)
select past.id
from past
