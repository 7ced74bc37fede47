-- Whether reaping must wait: nobody has ticked for too long, or the grace that followed lasts. By wall time, as tick.sql.
-- A tick or a grace that lies too far ahead is of a clock that was set back. Nobody knows what it hides; the tick that follows this
-- answer puts it right.
select ticked_at, grace_until
from ferryman.watchdog
where ticked_at < clock_timestamp() - :silence::interval
   or ticked_at > clock_timestamp() + :silence::interval
   or grace_until > clock_timestamp()
