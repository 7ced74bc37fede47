-- Who else is connected to this server.
select count(*) as others from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
