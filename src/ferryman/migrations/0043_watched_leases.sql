-- K24: a lease may end although its holder lives, where nobody could renew it: while the database was away, and while a table was locked as
-- by VACUUM FULL or by an index that is made in haste. So the watchdog knows of each domain when its leases could last be written, and an
-- outage begins where no lease in force could outlast it, not only where the watchdog's own would have ended.

-- The watchdog's memory of each domain whose leases it judges. By wall time, as ferryman.watchdog.
create table ferryman.watched_leases (
    domain text primary key check (domain in ('tasks', 'turns', 'ingest')),
    reached_at timestamptz not null default clock_timestamp(),
    grace_until timestamptz not null default '-infinity'
);
insert into ferryman.watched_leases (domain) values ('tasks'), ('turns'), ('ingest');

comment on table ferryman.watched_leases is 'When the leases of each domain could last be renewed, and until when none of them is judged.';
comment on column ferryman.watched_leases.reached_at is 'When a watchdog last found that holders can write their leases.';
comment on column ferryman.watched_leases.grace_until is 'Until when none is judged, after a time in which nobody could renew.';

-- Whether whoever holds something of a domain could renew it now: asks for the lock that a renewal takes, and waits for nobody.
create function ferryman.reachable(domain text) returns boolean
language plpgsql as $$
begin
    if reachable.domain = 'tasks' then
        lock table ferryman.tasks in row exclusive mode nowait;
    elsif reachable.domain = 'turns' then
        lock table ferryman.agent_state_head in row exclusive mode nowait;
    else
        lock table ferryman.ingest_task, ferryman.ingest_run in row exclusive mode nowait;
    end if;
    return true;
exception
    when lock_not_available then
        return false;
end
$$;

comment on function ferryman.reachable(text) is 'Whether the leases of a domain can be renewed now: nobody keeps its tables locked.';

-- How long nobody may have ticked before that counts as an outage: a quarter of the shortest lease of those who lived at that time, or
-- what whoever asks allows, if that is less. A holder renews what is a third old, and looks twice in a third: a half of it is left when the
-- database goes away. It is back a twelfth of its lease after the database is (kernel/keeper.py).
create function ferryman.silence(own interval, heard timestamptz) returns interval
language sql stable as $$
    select least(silence.own, min(least((worker.settings ->> 'lease_seconds')::float8,
                                        (worker.settings ->> 'ingest_lease_seconds')::float8)) * interval '1 s' / 4)
    from ferryman.workers as worker
    where worker.seen_until > silence.heard + (ferryman.clock() - clock_timestamp())
$$;

comment on function ferryman.silence(interval, timestamptz) is 'How long nobody may have ticked before it counts as an outage.';

-- Until when nobody is reaped, after that was last heard of and this grace was given. After an outage it is one lease. After a silence that
-- is shorter, in which only leases that were about to end can have ended, it is a third: everybody who lives has tried four times by then. Such a
-- silence may be that of a machine with much to do, and come again and again, so it gives no grace within a lease of the last.
create function ferryman.grace_after(heard timestamptz, until timestamptz, silence interval, outage interval, lease interval) returns timestamptz
language sql stable as $$
    select case
        when heard < clock_timestamp() - greatest(outage, silence) or heard > clock_timestamp() + silence
        then clock_timestamp() + lease
        when until > clock_timestamp()
        then least(until, clock_timestamp() + ferryman.longest_lease(lease))
        when heard < clock_timestamp() - silence and until < clock_timestamp() - lease
        then clock_timestamp() + lease / 3
        else until end
$$;

comment on function ferryman.grace_after(timestamptz, timestamptz, interval, interval, interval) is 'Until when nobody is reaped, by what was last heard.';

-- When the grace after an outage ends, or ended; the longest of them, where a domain has one of its own.
create or replace function ferryman.grace_ends() returns timestamptz
language sql stable as $$
    select coalesce(max(grace.until), '-infinity')
    from (select dog.grace_until from ferryman.watchdog as dog
          union all
          select lease.grace_until from ferryman.watched_leases as lease) as grace (until)
    where grace.until <= clock_timestamp() + ferryman.longest_lease('30 s')
$$;
