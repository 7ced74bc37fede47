-- A watchdog lives, and learns how long it must not reap.
-- By wall time, whatever a test has done to the clock: an outage is real time. Two that come together after an outage
-- queue at the row; the second reads the first one's tick and the grace it gave.
update ferryman.watchdog
set grace_until = case when ticked_at < clock_timestamp() - :silence::interval
                       then clock_timestamp() + :lease::interval
                       else grace_until end,
    ticked_at = clock_timestamp()
returning extract(epoch from greatest(grace_until, clock_timestamp()) - clock_timestamp())::float8 as grace_seconds
