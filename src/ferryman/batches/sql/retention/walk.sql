-- T20 finds: a batch that ended longer ago than such are kept, and whose parent was told. A page of a walk along the primary key, from
-- where the last one stopped. The ids of batches that turns forked are made of their calls and not of the time: all of them are
-- walked.
with clock as materialized (
    select ferryman.clock() as now
),
walk as materialized (
    select place.after_id
    from ferryman.retention as place, clock
    where place.domain = 'batch'
      and (place.next_at <= clock.now or place.next_at > clock.now + greatest(:pace::interval, :rest::interval))
    for update of place skip locked
),
page as materialized (
    select batch.id, batch.finished_at, batch.parent_told_at
    from walk
    cross join lateral (
        select each.id, each.finished_at, each.parent_told_at
        from ferryman.pmo_batches as each
        where each.id > walk.after_id
        order by each.id
        limit :span
    ) as batch
),
past as materialized (
    select page.id
    from page, clock
    where page.finished_at <= clock.now - :kept::interval
      and page.parent_told_at is not null
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
    where place.domain = 'batch'
)
select past.id
from past
