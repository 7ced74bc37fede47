-- Writes that a watchdog lives, and returns how long nothing may be reaped.
-- A gap in the ticks is an outage: holders could not renew either, so they get a grace of one lease. A tick may be as old as the
-- watchdog that wrote it allows (silence), or this one if that is longer: intervals differ between processes. No grace is given until
-- watchdogs have ticked without a gap for a lease after the last grace, or graces would follow each other for ever.
-- Wall time, whatever a test has done to the clock: an outage is real time. Watchdogs that tick together queue at the row.
-- A tick ahead of the clock is from before the clock was set back. So is the grace beside it, which would last as long again.
update ferryman.watchdog
set grace_until = case
        when ticked_at > clock_timestamp() + :silence::interval then '-infinity'
        when ticked_at < clock_timestamp() - greatest(silence, :silence::interval)
             and ticked_at >= greatest(steady_since, grace_until) + :lease::interval then clock_timestamp() + :lease::interval
        else grace_until
    end,
    steady_since = case
        when ticked_at between clock_timestamp() - greatest(silence, :silence::interval)
             and clock_timestamp() + :silence::interval then steady_since
        else clock_timestamp()
    end,
    ticked_at = clock_timestamp(),
    silence = :silence::interval
returning extract(epoch from greatest(grace_until, clock_timestamp()) - clock_timestamp())::float8 as grace_seconds
