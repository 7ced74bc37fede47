-- Holds the consumer's place for this transaction; another reader of the same name gets nothing.
select last_id, mark_id, mark_xid::text as mark_xid, pg_current_xact_id()::text as own_xid
from ferryman.consumers
where name = :name
for update skip locked
