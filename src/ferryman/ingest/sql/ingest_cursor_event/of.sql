-- The chain of a cursor, in order.
select event.id, event.seq, event.at, event.kind, event.prev_position, event.new_position, event.plan_id, event.slice_id,
       event.task_id, event.run_id, event.batch_id, event.reason
from ferryman.ingest_cursor_event as event
where event.cursor_id = :cursor_id
order by event.seq
