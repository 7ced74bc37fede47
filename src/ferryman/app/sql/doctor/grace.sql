-- When a watchdog last ticked, and until when it reaps nothing.
select extract(epoch from clock_timestamp() - ticked_at)::float8 as silent_seconds,
       greatest(0, extract(epoch from greatest(ferryman.grace_ends(), clock_timestamp()) - clock_timestamp()))::float8 as grace_seconds
from ferryman.watchdog
