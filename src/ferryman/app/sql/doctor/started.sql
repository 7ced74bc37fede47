-- Whether a worker has ever started here: each stores its settings before it claims.
select exists (select from ferryman.settings where name = 'watchdog.interval_seconds') as started
