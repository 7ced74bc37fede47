-- Who asks how full the queue of notifications is has the server throw away first what all who listen have read.
select pg_notification_queue_usage() as used
