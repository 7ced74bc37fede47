-- No cursor stands past a point that a slice leaves open, unless it began there. Of plans that were forgotten there is nothing to see:
-- they go only when their cursor has passed them.
select cursor.id, event.seq, event.new_position
from ferryman.ingest_cursor as cursor
join ferryman.ingest_cursor_event as event on event.cursor_id = cursor.id
where event.kind = 'forward'
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
