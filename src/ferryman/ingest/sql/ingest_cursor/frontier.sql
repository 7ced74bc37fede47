-- Where new work begins: finished coverage, and what somebody is still at, go that far without a gap.
with recursive cursor as (
    select held.id, held.position, held.counts_from
    from ferryman.ingest_cursor as held
    where held.id = :id
),
span as materialized (
    select slice.lower,
           case when slice.status = 'PENDING' or task.status in ('QUEUED', 'DISPATCHED', 'EXECUTING')
                     or (task.status = 'PARTIAL' and task.decision is null)
                then slice.upper else slice.covered end as upper
    from cursor
    join ferryman.ingest_slice as slice on slice.cursor_id = cursor.id
    left join ferryman.ingest_task as task on task.slice_id = slice.id
    where slice.upper > cursor.position
      and slice.created_at >= cursor.counts_from
),
walk (reached) as (
    select cursor.position
    from cursor
    union
    select next.upper
    from walk, lateral (
        select max(span.upper) as upper
        from span
        where span.lower <= walk.reached
          and span.upper > walk.reached
    ) as next
    where next.upper is not null
)
select max(walk.reached) as reached
from walk
