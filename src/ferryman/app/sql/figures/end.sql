-- Where the log ends, and what time it is.
select case when log.is_called then log.last_value else 0 end as end_id, ferryman.clock() as now
from ferryman.events_id_seq as log
