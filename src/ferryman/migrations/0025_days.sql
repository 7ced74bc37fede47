-- The log's days without a look at every row of the net.
-- A day is attached only after PostgreSQL has read the whole net, to see that none of its rows belong there, and meanwhile nobody
-- writes into the net. An empty net costs nothing, so it should stay empty: a database that has written nothing yet gets today's
-- partition too, before anybody writes. Where the net does hold rows, one day is attached at a time.
create or replace function ferryman.ensure_partitions(ahead integer) returns setof text
language plpgsql set lock_timeout = '500ms' as $$
declare
    today date := (now() at time zone 'UTC')::date;
    spread boolean := exists (select from ferryman.events_default);
    name text;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('ferryman.events', 0)) then
        return;
    end if;
    for day in 1 .. ahead loop
        name := 'events_' || to_char(today + day, 'YYYYMMDD');
        continue when to_regclass('ferryman.' || name) is not null;
        begin
            perform ferryman.make_day(today + day);
            return next name;
            exit when spread;
        exception
            when check_violation or lock_not_available then
                continue;
        end;
    end loop;
end
$$;

create function ferryman.make_day(day date) returns void
language plpgsql as $$
declare
    name text := 'events_' || to_char(day, 'YYYYMMDD');
begin
    execute format(
        'create table ferryman.%I (like ferryman.events including defaults)
         with (autovacuum_analyze_scale_factor = 0.05)', name);
    execute format(
        'create trigger events_append_only before update or delete or truncate on ferryman.%I
         for each statement execute function ferryman.refuse_rewriting()', name);
    execute format(
        'alter table ferryman.events attach partition ferryman.%I for values from (%L) to (%L)',
        name, to_char(day, 'YYYY-MM-DD 00:00:00+00'), to_char(day + 1, 'YYYY-MM-DD 00:00:00+00'));
end
$$;

-- As before, but the net is asked for its last row by id, and read whole only when that one is old enough for all to be.
create or replace function ferryman.drop_partitions(older_than interval, even_unread boolean) returns setof text
language plpgsql set lock_timeout = '500ms' as $$
declare
    cutoff timestamptz := now() - older_than;
    read_id bigint := (select min(last_id) from ferryman.consumers);
    newest record;
    young boolean;
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
        execute format('select max(id) as id from ferryman.%I', name) into newest;
        exit when newest.id > read_id and not even_unread;
        if name = 'events_default' then
            continue when newest.id is null;
            select logged_at >= cutoff into young from ferryman.events_default where id = newest.id;
            continue when young;
            continue when exists (select from ferryman.events_default where logged_at >= cutoff);
        end if;
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

do $$
begin
    if not exists (select from ferryman.events) then
        perform ferryman.make_day((now() at time zone 'UTC')::date);
    end if;
exception
    when check_violation or lock_not_available or duplicate_table then
        null; -- somebody writes already: today stays with the net
end
$$;
