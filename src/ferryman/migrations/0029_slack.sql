-- How long past its time a row may stay before it is an alarm: as long as the watchdog may be silent before that counts as an
-- outage (K24), because a row is either swept by then or under grace. But no less than a row can be hidden and then looked for,
-- however often the watchdog ticks: PostgreSQL ends a transaction that a frozen process left open after 2 s, and what it
-- held is found by the next sweep, a second later at most.
create or replace function ferryman.slack() returns interval
language sql stable as $$
    select greatest(3 * known.interval, known.interval + interval '3 s')
    from (
        select make_interval(secs => coalesce(
            (select value::text::float8 from ferryman.settings where name = 'watchdog.interval_seconds'), 5)) as interval
    ) as known
$$;
