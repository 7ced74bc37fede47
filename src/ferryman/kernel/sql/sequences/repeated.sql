-- The lowest and highest of the ids that were found twice in the log.
select min(id) as first_id, max(id) as last_id from ferryman.repeated_event_ids() as id
