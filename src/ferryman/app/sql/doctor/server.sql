-- What answers at the other end, and whether it took what our connections ask for.
select current_setting('server_version_num')::integer as version_number, current_setting('server_version') as version,
       pg_is_in_recovery() as standby, current_setting('plan_cache_mode') as plan_cache_mode,
       current_setting('transaction_isolation') as isolation,
       current_setting('transaction_read_only')::boolean as read_only,
       current_setting('synchronous_commit') as synchronous_commit, current_setting('fsync') as fsync,
       current_setting('synchronous_standby_names') as standbys,
       pg_notification_queue_usage() as notifications,
       current_setting('max_connections')::integer as max_connections,
       (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections
