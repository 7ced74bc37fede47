-- Whether reaping must wait: nobody has ticked for too long, or the grace that followed lasts. By wall time, as tick.sql.
select ticked_at, grace_until
from ferryman.watchdog
where ticked_at < clock_timestamp() - :silence::interval
   or grace_until > clock_timestamp()
