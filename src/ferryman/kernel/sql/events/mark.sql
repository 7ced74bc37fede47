-- The mark of a reader that keeps its place in memory.
select pg_current_xact_id()::text as own_xid
