-- Where the log ends, what time it is, and how many workers live.
select case when log.is_called then pg_sequence_last_value('ferryman.events_id_seq'::regclass) else 0 end as end_id,
       ferryman.clock() as now,
       (select count(*)::integer from ferryman.workers as worker where worker.seen_until >= ferryman.clock()) as workers
from ferryman.events_id_seq as log
