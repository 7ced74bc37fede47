-- How far finished coverage goes without a gap from where the cursor stands.
with cursor as materialized (
    select held.id, held.position, held.counts_from
    from ferryman.ingest_cursor as held
    where held.id = :id
),
span as materialized (
    select slice.lower, slice.covered as upper,
           max(slice.covered) over (order by slice.lower, slice.covered rows between unbounded preceding and 1 preceding) as before
    from cursor
    join ferryman.ingest_slice as slice on slice.cursor_id = cursor.id
    where slice.upper > cursor.position
      and slice.covered > cursor.position
      and slice.created_at >= cursor.counts_from
),
gap as materialized (
    select min(span.lower) as lower
    from span, cursor
    where span.lower > greatest(cursor.position, span.before)
)
select cursor.position, greatest(cursor.position, max(span.upper)) as reached
from cursor
cross join gap
left join span on gap.lower is null or span.lower < gap.lower
group by cursor.position
