-- Whether reaping in a domain must wait: nobody has ticked for too long, or could renew for as long, or the grace that followed lasts. By
-- wall time, as tick.sql.
-- A tick or a grace that lies too far ahead is of a clock that was set back. Nobody knows what it hides; the tick that follows this
-- answer puts it right.
select dog.ticked_at, lease.reached_at
from ferryman.watchdog as dog, ferryman.watched_leases as lease
cross join lateral (select ferryman.silence(:silence::interval, lease.reached_at) as silence) as quiet
where lease.domain = :domain
  and (least(dog.ticked_at, lease.reached_at) < clock_timestamp() - quiet.silence
       or greatest(dog.ticked_at, lease.reached_at) > clock_timestamp() + quiet.silence
       or greatest(dog.grace_until, lease.grace_until) > clock_timestamp())
