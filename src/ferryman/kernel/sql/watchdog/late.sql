-- How long no watchdog has ticked, if that is longer than it may be.
-- A tick that lies as far ahead is of a clock that was set back: nobody has ticked since, however long that is.
select greatest(clock_timestamp() - ticked_at, interval '0') as silent
from ferryman.watchdog
where ticked_at < clock_timestamp() - :allowed::interval
   or ticked_at > clock_timestamp() + :allowed::interval
