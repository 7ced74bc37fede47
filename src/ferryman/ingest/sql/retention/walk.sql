-- T20 finds: a plan of which everything ended longer ago than plans are kept. A page of a walk along the primary key, from where the
-- last one stopped; plans younger than the time of keeping are passed over.
-- A plan stays while its cursor is not past all its slices: what is covered beyond a gap, and the gap itself, are told by them.
with clock as materialized (
    select ferryman.clock() as now,
           ferryman.id_at(ferryman.clock() - :kept::interval) as young
),
walk as materialized (
    select place.after_id
    from ferryman.retention as place, clock
    where place.domain = 'ingest_plan'
      and (place.next_at <= clock.now or place.next_at > clock.now + greatest(:pace::interval, :rest::interval))
    for update of place skip locked
),
page as materialized (
    select plan.id, plan.finished_at
    from clock, walk
    cross join lateral (
        select each.id, each.finished_at
        from ferryman.ingest_plan as each
        where each.id > walk.after_id
          and each.id < clock.young
        order by each.id
        limit :span
    ) as plan
),
past as materialized (
    select page.id
    from page, clock
    where page.finished_at <= clock.now - :kept::interval
      and not exists (select from ferryman.ingest_task as task
                      where task.plan_id = page.id
                        and (task.finished_at is null or task.finished_at > clock.now - :kept::interval
                             or (task.status = 'PARTIAL' and task.decision is null)))
      and not exists (select from ferryman.ingest_slice as slice
                      left join ferryman.ingest_cursor as cursor on cursor.id = slice.cursor_id
                      where slice.plan_id = page.id
                        and (slice.status = 'PENDING' or (slice.cursor_id is not null and slice.upper > cursor.position)))
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
        next_at = clock.now + case when reached.full_set then interval '0'
                                   when reached.id is not null then :pace::interval
                                   else :rest::interval end
    from clock, walk, reached
    where place.domain = 'ingest_plan'
)
select past.id
from past
