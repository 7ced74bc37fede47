-- Where the log ends, what time it is, and how many workers live.
select case when log.is_called then log.last_value else 0 end as end_id, ferryman.clock() as now,
       (select count(*)::integer from ferryman.workers as worker where worker.seen_until >= ferryman.clock()) as workers
from ferryman.events_id_seq as log
