-- T20 finds: ended longer ago than such tasks are kept. A page of a walk along the primary key, from where the last one stopped.
-- What was created since the shortest time of keeping cannot be old enough, so that stretch of ids is passed over; behind it
-- lie only ids that callers chose themselves. Whoever holds the place walks; the others find nothing.
-- A rest that ends later than any rest can was begun by a clock that has been set back since: it is over.
with clock as materialized (
    select ferryman.clock() as now,
           ferryman.id_at(ferryman.clock() - least(:kept::interval, :failed_kept::interval)) as young,
           ferryman.id_at(greatest(ferryman.clock(), clock_timestamp())) as newest
),
walk as materialized (
    select place.after_id
    from ferryman.retention as place, clock
    where place.domain = 'task'
      and (place.next_at <= clock.now or place.next_at > clock.now + greatest(:pace::interval, :rest::interval))
    for update of place skip locked
),
page as materialized (
    select part.stretch, part.id, part.state, part.finished_at
    from clock, walk
    cross join lateral (
        (
            select 1 as stretch, task.id, task.state, task.finished_at
            from ferryman.tasks as task
            where task.id > walk.after_id
              and task.id < clock.young
            order by task.id
            limit :span
        )
        union all
        (
            select 2, task.id, task.state, task.finished_at
            from ferryman.tasks as task
            where task.id > greatest(walk.after_id, clock.newest)
            order by task.id
            limit :span
        )
    ) as part
    order by part.stretch, part.id
    limit :span
),
past as materialized (
    select page.stretch, page.id
    from page, clock
    where page.finished_at <= clock.now - case page.state when 'failed' then :failed_kept::interval else :kept::interval end
    order by page.stretch, page.id
    limit :limit
),
reached as materialized (
    select case when (select count(*) from past) = :limit then (select past.id from past order by past.stretch desc, past.id desc limit 1)
                when (select count(*) from page) = :span then (select page.id from page order by page.stretch desc, page.id desc limit 1)
           end as id,
           (select count(*) from past) = :limit as full_set
),
moved as (
    update ferryman.retention as place
    set after_id = coalesce(reached.id, '00000000-0000-0000-0000-000000000000'),
        next_at = clock.now + case when reached.full_set then interval '0'
                                   when reached.id is not null then :pace::interval
                                   else :rest::interval end
    from clock, walk, reached
    where place.domain = 'task'
)
select past.id
from past
