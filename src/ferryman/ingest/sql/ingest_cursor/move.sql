-- Compare-and-set, after the event; the database refuses what no event says.
update ferryman.ingest_cursor
set position = :position, last_event = :event, updated_at = ferryman.clock(), rewinds = rewinds + :rewinds,
    counts_from = case when :rewinds > 0 then ferryman.clock() else counts_from end
where id = :id
  and position = :expected
returning id
