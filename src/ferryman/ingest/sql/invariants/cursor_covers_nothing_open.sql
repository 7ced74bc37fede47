-- No cursor has passed what no slice covers. That is asked of the whole way of a cursor while all plans are there that its events name;
-- when some were forgotten (they go only when their cursor has passed them), of each place at which it came to stand: there no
-- slice may leave open what no other covers.
with cursor as materialized (
    select each.id,
           exists (select from ferryman.ingest_cursor_event as event
                   where event.cursor_id = each.id
                     and event.plan_id is not null
                     and not exists (select from ferryman.ingest_plan as plan where plan.id = event.plan_id)) as forgotten
    from ferryman.ingest_cursor as each
),
span as materialized (
    select slice.cursor_id, slice.lower, slice.covered as upper,
           max(slice.covered) over (partition by slice.cursor_id order by slice.lower, slice.covered
                                    rows between unbounded preceding and 1 preceding) as before
    from ferryman.ingest_slice as slice
    where slice.covered is not null
),
gap as materialized (
    select span.cursor_id, span.before as lower, span.lower as upper
    from span
    where span.before is null
       or span.lower > span.before
    union all
    select cursor.id, max(span.upper), null
    from cursor
    left join span on span.cursor_id = cursor.id
    group by cursor.id
)
select event.cursor_id as id, event.seq, event.new_position
from cursor
join gap on gap.cursor_id = cursor.id
join ferryman.ingest_cursor_event as event on event.cursor_id = cursor.id
where not cursor.forgotten
  and event.kind = 'forward'
  and (gap.lower is null or gap.lower < event.new_position)
  and (gap.upper is null or gap.upper > event.prev_position)
union
select event.cursor_id, event.seq, event.new_position
from cursor
join ferryman.ingest_cursor_event as event on event.cursor_id = cursor.id
where cursor.forgotten
  and event.kind = 'forward'
  and exists (
      select from ferryman.ingest_slice as slice
      where slice.cursor_id = cursor.id
        and slice.upper >= event.new_position
        and slice.lower < event.new_position)
  and not exists (
      select from ferryman.ingest_slice as slice
      where slice.cursor_id = cursor.id
        and slice.covered >= event.new_position
        and slice.lower < event.new_position)
