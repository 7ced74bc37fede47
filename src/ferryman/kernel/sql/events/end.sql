-- Where the log ends, and how far the consumer is. Asked before this transaction has an id of its own: every id up to the end
-- was drawn by a transaction that is older than the one we get next.
-- The function looks at the sequence under its lock. Who selects last_value does not, and may find a number up to 32 too high: once
-- in 32 draws a writer puts there, for a moment, what it writes to the WAL ahead.
select case when log.is_called then pg_sequence_last_value('ferryman.events_id_seq'::regclass) else 0 end as end_id,
       pg_current_xact_id_if_assigned() is null as fresh,
       consumer.last_id
from ferryman.events_id_seq as log
left join ferryman.consumers as consumer on consumer.name = :name::text
