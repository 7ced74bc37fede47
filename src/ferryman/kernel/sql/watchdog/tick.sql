-- A watchdog lives, and learns of each domain how long it must not reap, and how soon it has to tick again.
-- By wall time, whatever a test has done to the clock: an outage is real time. Two that come together after an outage
-- queue at the row; the second reads the first one's tick and the grace it gave.
-- A domain whose tables are locked is not ticked for: nobody can renew either, so that is an outage of its own.
-- A clock that was set back leaves a tick and a grace that lie ahead: such a tick says as little of the last minute as one of
-- long ago, and no grace lasts longer than one that is given now.
with quiet as materialized (
    -- Of those who lived when all was well: an outage may be longer than they are remembered for.
    select ferryman.silence(:silence::interval, least(dog.ticked_at, min(lease.reached_at))) as silence
    from ferryman.watchdog as dog, ferryman.watched_leases as lease
    group by dog.ticked_at
),
ticked as (
    update ferryman.watchdog
    set grace_until = ferryman.grace_after(ticked_at, grace_until, (select silence from quiet), :outage::interval, :lease::interval),
        ticked_at = clock_timestamp()
    returning grace_until
),
reached as (
    -- After the tick, for which one waits at its row: so two who tick meet there, and not here.
    update ferryman.watched_leases as lease
    set grace_until = ferryman.grace_after(lease.reached_at, lease.grace_until, (select silence from quiet), :outage::interval,
                                           :lease::interval),
        reached_at = clock_timestamp()
    from ticked
    where ferryman.reachable(lease.domain)
    returning lease.domain, lease.grace_until
)
select lease.domain, reached.domain is not null as reached,
       extract(epoch from greatest(ticked.grace_until, reached.grace_until, clock_timestamp()) - clock_timestamp())::float8 as grace_seconds,
       extract(epoch from quiet.silence)::float8 as silence_seconds
from quiet, ticked, ferryman.watched_leases as lease
left join reached on reached.domain = lease.domain
