-- How far finished coverage goes without a gap from where the cursor stands.
with recursive cursor as (
    select held.id, held.position, held.counts_from
    from ferryman.ingest_cursor as held
    where held.id = :id
),
walk (reached) as (
    select cursor.position
    from cursor
    union
    select next.covered
    from walk, lateral (
        select max(slice.covered) as covered
        from cursor
        join ferryman.ingest_slice as slice on slice.cursor_id = cursor.id
        where slice.lower <= walk.reached
          and slice.covered > walk.reached
          and slice.created_at >= cursor.counts_from
    ) as next
    where next.covered is not null
)
select cursor.position, (select max(walk.reached) from walk) as reached
from cursor
