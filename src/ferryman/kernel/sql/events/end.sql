-- Where the log ends, and how far the consumer is. Asked before this transaction has an id of its own: every id up to the end
-- was drawn by a transaction that is older than the one we get next.
select case when log.is_called then log.last_value else 0 end as end_id,
       pg_current_xact_id_if_assigned() is null as fresh,
       consumer.last_id
from ferryman.events_id_seq as log
left join ferryman.consumers as consumer on consumer.name = :name::text
