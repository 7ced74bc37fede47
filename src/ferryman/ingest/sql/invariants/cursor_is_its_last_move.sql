-- A cursor stands where its last move left it.
select cursor.id, cursor.position, last.new_position
from ferryman.ingest_cursor as cursor
left join lateral (
    select event.id, event.new_position
    from ferryman.ingest_cursor_event as event
    where event.cursor_id = cursor.id
      and event.kind <> 'no-forward'
    order by event.seq desc
    limit 1
) as last on true
where last.new_position is distinct from cursor.position
   or last.id is distinct from cursor.last_event
