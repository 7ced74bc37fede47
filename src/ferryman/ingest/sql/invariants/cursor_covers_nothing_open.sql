-- No cursor stands past a point that no finished coverage reaches, unless it began there.
select cursor.id, event.seq, event.new_position
from ferryman.ingest_cursor as cursor
join ferryman.ingest_cursor_event as event on event.cursor_id = cursor.id
where event.kind = 'forward'
  and not exists (
      select from ferryman.ingest_slice as slice
      where slice.cursor_id = cursor.id
        and slice.covered >= event.new_position
        and slice.lower < event.new_position)
