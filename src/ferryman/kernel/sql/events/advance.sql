-- The consumer's place, kept in the transaction that holds what it did with the events.
update ferryman.consumers
set last_id = :last_id, mark_id = :mark_id, mark_xid = :mark_xid::text::xid8, updated_at = ferryman.clock()
where name = :name
