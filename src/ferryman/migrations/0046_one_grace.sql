-- K24: the grace after an outage belongs to the database. It is one row, whichever watchdog gives it and however long a watchdog lives.
--
-- A watchdog that finds a gap in the ticks gives a grace. How long a gap must be is stored with each tick, because watchdogs have
-- different intervals. A watchdog may do so only if watchdogs had ticked without a gap for a lease after
-- the last grace. Otherwise graces could follow each other for ever, and no expired lease would be reaped.

alter table ferryman.watchdog
    add column steady_since timestamptz not null default '-infinity',
    add column silence interval not null default '0';

comment on column ferryman.watchdog.ticked_at is 'When a watchdog last wrote that it lives.';
comment on column ferryman.watchdog.grace_until is 'Until when no watchdog reaps, because there was an outage.';
comment on column ferryman.watchdog.steady_since is 'Since when watchdogs have ticked without a gap.';
comment on column ferryman.watchdog.silence is 'How long the watchdog that ticked last may be silent.';

-- When the grace after an outage ends, or ended. A tick that lies ahead of the clock is from before the clock was set back, and so is
-- the grace beside it: it counts for nothing until the next tick clears it.
create or replace function ferryman.grace_ends() returns timestamptz
language sql stable as $$
    select case when dog.ticked_at > clock_timestamp() + ferryman.slack() then '-infinity' else dog.grace_until end
    from ferryman.watchdog as dog
$$;

comment on function ferryman.grace_ends() is 'When the grace after an outage ends, or ended.';

-- A migration only adds (K15): workers of the version before still call these. Nothing else does.
comment on table ferryman.watched_leases is 'Unused since migration 0046. Only workers of an earlier version write it.';
comment on function ferryman.reachable(text) is 'Unused since migration 0046. Only workers of an earlier version call it.';
comment on function ferryman.silence(interval, timestamptz) is 'Unused since migration 0046. Only workers of an earlier version call it.';
comment on function ferryman.grace_after(timestamptz, timestamptz, interval, interval, interval) is
    'Unused since migration 0046. Only workers of an earlier version call it.';
comment on function ferryman.longest_lease(interval) is 'Unused since migration 0046. Only workers of an earlier version call it.';
