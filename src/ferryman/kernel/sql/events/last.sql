-- Where the log ends for a reader that begins now. A sequence that was left behind (kernel/sequences.py) does not count: the reader
-- would begin before events that are old.
-- The function looks at the sequence under its lock, as in end.sql.
select greatest(case when log.is_called then pg_sequence_last_value('ferryman.events_id_seq'::regclass) else 0 end,
                (select max(event.id) from ferryman.events as event)) as end_id,
       pg_current_xact_id_if_assigned() is null as fresh
from ferryman.events_id_seq as log
