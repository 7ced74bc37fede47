-- Somebody signs out.
delete from ferryman.access_sessions as session
where session.hash = :hash::bytea
returning session.token_id
