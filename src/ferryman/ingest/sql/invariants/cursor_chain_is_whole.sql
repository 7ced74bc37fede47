-- Each move of a cursor begins where the one before it ended.
select chain.cursor_id, chain.seq, chain.prev_position, chain.before
from (
    select event.cursor_id, event.seq, event.kind, event.prev_position,
           lag(event.new_position) over (partition by event.cursor_id order by event.seq) as before
    from ferryman.ingest_cursor_event as event
    join ferryman.ingest_cursor as cursor on cursor.id = event.cursor_id
    where event.kind <> 'no-forward'
) as chain
where chain.prev_position is distinct from chain.before
