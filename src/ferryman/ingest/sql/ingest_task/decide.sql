-- The planner's word about a PARTIAL end; said once.
update ferryman.ingest_task
set decision = :decision, decided_at = ferryman.clock()
where id = :id
  and status = 'PARTIAL'
  and decision is null
returning id
