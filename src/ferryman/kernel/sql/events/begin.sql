-- A new consumer begins after `last_id`; no row back means that somebody else has just begun it.
insert into ferryman.consumers (name, last_id, mark_id)
values (:name, :last_id, :last_id)
on conflict (name) do nothing
returning last_id, mark_id, mark_xid::text as mark_xid, pg_current_xact_id()::text as own_xid
