-- A watchdog lives, and learns how long it must not reap.
-- By wall time, whatever a test has done to the clock: an outage is real time. Two that come together after an outage
-- queue at the row; the second reads the first one's tick and the grace it gave.
-- A clock that was set back leaves a tick and a grace that lie ahead: such a tick says as little of the last minute as one of
-- long ago, and no grace lasts longer than one that is given now.
update ferryman.watchdog
set grace_until = case when ticked_at < clock_timestamp() - :silence::interval
                         or ticked_at > clock_timestamp() + :silence::interval
                       then clock_timestamp() + :lease::interval
                       when grace_until > clock_timestamp()
                       then least(grace_until, clock_timestamp() + ferryman.longest_lease(:lease::interval))
                       else grace_until end,
    ticked_at = clock_timestamp()
returning extract(epoch from greatest(grace_until, clock_timestamp()) - clock_timestamp())::float8 as grace_seconds
