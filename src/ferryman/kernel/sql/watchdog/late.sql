-- How long no watchdog has ticked, if that is longer than it may be.
select clock_timestamp() - ticked_at as silent
from ferryman.watchdog
where ticked_at < clock_timestamp() - :allowed::interval
