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

-- K3: called only for an illegal move: the trigger's WHEN clause lists the legal ones.
create function ferryman.refuse_move() returns trigger
language plpgsql as $$
declare
    code text := tg_argv[0];
    state_column text := tg_argv[1];
    id_column text := tg_argv[2];
begin
    raise exception using
        errcode = 'FM001',
        message = code,
        detail = json_build_object(
            'table', tg_table_name,
            'id', to_jsonb(new) ->> id_column,
            'from', case when tg_op = 'UPDATE' then to_jsonb(old) ->> state_column end,
            'to', to_jsonb(new) ->> state_column)::text,
        hint = 'The legal moves are in docs/machines; a terminal state is final.';
end
$$;

-- K10: every state change of every domain is one row. Narrow: the envelope that consumers see is built on reading.
-- Partitioned by the wall time of writing, so that retention drops whole partitions; a moved clock does not matter here.
create table ferryman.events (
    id bigint generated always as identity,
    xid xid8 not null default pg_current_xact_id(),
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

create index events_window on ferryman.events (xid, id);
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

-- A named reader of the log: it has seen everything below `low`, and of the window [low, high) everything up to `last_id`.
create table ferryman.consumers (
    name text primary key,
    low xid8 not null default '0',
    high xid8 not null default '0',
    last_id bigint not null default 0,
    updated_at timestamptz not null default now()
);

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
