-- How far a consumer of the log is.
select last_id, mark_id, mark_xid::text as mark_xid
from ferryman.consumers
where name = :name
