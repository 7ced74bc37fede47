-- Where new work begins: finished coverage, and what somebody is still at, go that far without a gap.
with cursor as materialized (
    select held.id, held.position, held.counts_from
    from ferryman.ingest_cursor as held
    where held.id = :id
),
kept as materialized (
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
span as materialized (
    select kept.lower, kept.upper,
           max(kept.upper) over (order by kept.lower, kept.upper rows between unbounded preceding and 1 preceding) as before
    from kept, cursor
    where kept.upper > cursor.position
),
gap as materialized (
    select min(span.lower) as lower
    from span, cursor
    where span.lower > greatest(cursor.position, span.before)
)
select greatest(cursor.position, max(span.upper)) as reached
from cursor
cross join gap
left join span on gap.lower is null or span.lower < gap.lower
group by cursor.position
