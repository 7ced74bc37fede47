-- Whether reaping must wait: the ticks have a gap, or the grace after one lasts. Wall time, as in tick.sql.
select from ferryman.watchdog
where ticked_at < clock_timestamp() - greatest(silence, :silence::interval)
   or ferryman.grace_ends() > clock_timestamp()
