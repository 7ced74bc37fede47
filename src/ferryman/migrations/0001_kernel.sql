-- The ground that all domains stand on: the clock, the guard, the log, its readers, the watchdog's memory.

-- K14: all SQL asks this one function for the time. Wall clock, plus a shift that tests move; one row, so that all
-- processes of a test move together. STABLE, so that it can stand in an index condition; PL/pgSQL, because an SQL function
-- of another volatility than its body is planned anew in each statement.
create table ferryman.clock_shift (
    only_row boolean primary key default true check (only_row),
    shift interval not null default '0'
);
insert into ferryman.clock_shift default values;

create function ferryman.clock() returns timestamptz
language plpgsql stable parallel safe as $$
begin
    return clock_timestamp() + (select shift from ferryman.clock_shift);
end
$$;

-- K3: called only for an illegal move or birth: the triggers' WHEN clauses list the legal ones.
create function ferryman.refuse_move() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
declare
    was text := case tg_op when 'UPDATE' then to_jsonb(old) ->> tg_argv[1] end;
begin
    raise exception using
        errcode = 'FM001',
        message = tg_argv[0],
        detail = jsonb_build_object(
            'table', tg_table_name,
            'id', to_jsonb(new) ->> tg_argv[2],
            'from', was,
            'to', to_jsonb(new) ->> tg_argv[1]
        )::text;
end
$$;

-- K10: every state change of every domain is one row. Narrow: the envelope that consumers see is built on reading.
-- Partitioned by the wall time of writing, so that retention drops whole partitions; a moved clock does not matter here.
-- xid stands before id: defaults are taken in this order, and readers rely on a writer having its transaction id before it
-- draws an event's id. They also rely on ids being drawn one by one (no cache in the sequence).
create table ferryman.events (
    xid xid8 not null default pg_current_xact_id(),
    id bigint generated always as identity,
    logged_at timestamptz not null default now(),
    at timestamptz not null,
    subject uuid not null,
    attempt integer,
    tenant text not null,
    kind text not null,
    from_state text,
    to_state text,
    subject_name text,
    reason_code text,
    reason_message text,
    data jsonb
) partition by range (logged_at);

create table ferryman.events_default partition of ferryman.events default
    with (autovacuum_analyze_scale_factor = 0.05);

create index events_order on ferryman.events (id);
create index events_subject on ferryman.events (subject, id);

create function ferryman.refuse_rewriting() returns trigger
language plpgsql as $$
begin
    raise exception using
        errcode = 'FM002',
        message = 'EVENTS_APPEND_ONLY',
        hint = 'The log is never changed; retention drops whole partitions.';
end
$$;

create trigger events_append_only before update or delete or truncate on ferryman.events
    for each statement execute function ferryman.refuse_rewriting();
create trigger events_append_only before update or delete or truncate on ferryman.events_default
    for each statement execute function ferryman.refuse_rewriting();

-- A named reader of the log: it has read everything up to last_id. The log ended at mark_id when it looked, and mark_xid is
-- its own transaction id, taken after that look: once no older transaction is open, nothing up to mark_id can still appear.
create table ferryman.consumers (
    name text primary key,
    last_id bigint not null default 0,
    mark_id bigint not null default 0,
    mark_xid xid8 not null default '0',
    updated_at timestamptz not null default now()
);

-- One partition a day (UTC), made ahead. Attached, not created in place: that lets writers write on. The default partition
-- stays as a net: for days whose rows it already holds, and for a day that has begun, because a writer that is on its way
-- into the net would be refused by it when the day is attached under its feet. Many processes may ask at once: one does it, and what
-- cannot be locked at once is left for the next time.
create function ferryman.ensure_partitions(ahead integer) returns setof text
language plpgsql set lock_timeout = '500ms' as $$
declare
    today date := (now() at time zone 'UTC')::date;
    name text;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('ferryman.events', 0)) then
        return;
    end if;
    for day in 1 .. ahead loop
        name := 'events_' || to_char(today + day, 'YYYYMMDD');
        continue when to_regclass('ferryman.' || name) is not null;
        begin
            execute format(
                'create table ferryman.%I (like ferryman.events including defaults)
                 with (autovacuum_analyze_scale_factor = 0.05)', name);
            execute format(
                'create trigger events_append_only before update or delete or truncate on ferryman.%I
                 for each statement execute function ferryman.refuse_rewriting()', name);
            execute format(
                'alter table ferryman.events attach partition ferryman.%I for values from (%L) to (%L)',
                name, to_char(today + day, 'YYYY-MM-DD 00:00:00+00'), to_char(today + day + 1, 'YYYY-MM-DD 00:00:00+00'));
            return next name;
        exception
            when check_violation or lock_not_available then
                continue;
        end;
    end loop;
end
$$;

-- Drops the days that ended longer ago than `older_than`, oldest first, and stops at the first that a consumer has still to
-- read, unless told otherwise. A net whose rows are all that old is dropped too, and spread anew.
create function ferryman.drop_partitions(older_than interval, even_unread boolean) returns setof text
language plpgsql set lock_timeout = '500ms' as $$
declare
    cutoff timestamptz := now() - older_than;
    read_id bigint := (select min(last_id) from ferryman.consumers);
    newest record;
    name text;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('ferryman.events', 0)) then
        return;
    end if;
    for name in
        select child.relname
        from pg_inherits as link
        join pg_class as child on child.oid = link.inhrelid
        where link.inhparent = 'ferryman.events'::regclass
          and (child.relname = 'events_default'
               or child.relname ~ '^events_[0-9]{8}$'
                  and to_date(substr(child.relname, 8), 'YYYYMMDD') + 1 <= (cutoff at time zone 'UTC')::date)
        order by child.relname
    loop
        execute format('select max(id) as id, max(logged_at) as logged_at from ferryman.%I', name) into newest;
        exit when newest.id > read_id and not even_unread;
        continue when name = 'events_default' and (newest.id is null or newest.logged_at >= cutoff);
        begin
            execute format('drop table ferryman.%I', name);
            if name = 'events_default' then
                create table ferryman.events_default partition of ferryman.events default
                    with (autovacuum_analyze_scale_factor = 0.05);
                create trigger events_append_only before update or delete or truncate on ferryman.events_default
                    for each statement execute function ferryman.refuse_rewriting();
            end if;
            return next name;
        exception
            when lock_not_available then
                exit;
        end;
    end loop;
end
$$;

-- Effective settings that SQL needs or that processes must agree on (doctor reports those that differ).
create table ferryman.settings (
    name text primary key,
    value jsonb not null,
    updated_at timestamptz not null default now()
);

-- Who works: one row per process, keyed by its boot.
create table ferryman.workers (
    boot_id uuid primary key,
    tenant text,
    host text not null,
    pid integer not null,
    version text not null,
    queues text[] not null,
    handlers text[] not null,
    settings jsonb not null default '{}',
    started_at timestamptz not null default ferryman.clock(),
    seen_until timestamptz not null
);

-- The watchdog's memory. Wall time on purpose: an outage is real time, however far a test has moved the clock (K24).
create table ferryman.watchdog (
    only_row boolean primary key default true check (only_row),
    ticked_at timestamptz not null default clock_timestamp(),
    grace_until timestamptz not null default '-infinity'
);
insert into ferryman.watchdog default values;
