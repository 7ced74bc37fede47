-- K10: after logical replication or a partial restore, the rows of a table are here but its sequence starts again at 1. New events
-- would get ids that readers have passed. This view finds such sequences, and the function repairs one of them.

-- The highest id that a sequence has given out, and the highest in use. An empty log uses the positions of its readers. A log with
-- rows does not: where a reader is past all of them its position is wrong, and the rows must keep their ids. The ledger has no
-- index on seq: its newest rows by id are enough, because new ids sort after older ones.
create view ferryman.sequences as
select 'events'::text as table_name,
       (select case when is_called then pg_sequence_last_value('ferryman.events_id_seq'::regclass) else 0 end from ferryman.events_id_seq) as last_id,
       coalesce((select max(event.id) from ferryman.events as event),
                greatest((select max(greatest(consumer.last_id, consumer.mark_id)) from ferryman.consumers as consumer),
                         (select max(webhook.after_id) from ferryman.webhooks as webhook)), 0) as needed_id
union all
select 'task_logs',
       (select case when is_called then pg_sequence_last_value('ferryman.task_logs_id_seq'::regclass) else 0 end from ferryman.task_logs_id_seq),
       coalesce((select max(log.id) from ferryman.task_logs as log), 0)
union all
select 'task_signals',
       (select case when is_called then pg_sequence_last_value('ferryman.task_signals_id_seq'::regclass) else 0 end from ferryman.task_signals_id_seq),
       coalesce((select max(signal.id) from ferryman.task_signals as signal), 0)
union all
select 'ingest_cursor_event',
       (select case when is_called then pg_sequence_last_value('ferryman.ingest_cursor_event_seq_seq'::regclass) else 0 end from ferryman.ingest_cursor_event_seq_seq),
       coalesce((select max(newest.seq)
                 from (select event.seq from ferryman.ingest_cursor_event as event order by event.id desc limit 1000) as newest), 0);

comment on view ferryman.sequences is 'Each sequence: the last id it gave out, and the last id in use. Behind if last_id < needed_id.';

-- Moves a sequence past every id in use. Rows that were written while it was behind get new ids above, in the order in which they
-- were written, so that readers find them after their positions. Writers of the table wait meanwhile. Returns nothing while
-- another session repairs. Only the owner of the table may do this.
--
-- Rows up to the sequence's last id are of both times where the log was kept from its beginning. The new ones were written after
-- everything above; half of the time between the first and the last row above is allowed for clocks that differ and for long
-- transactions. Without any row above, all rows are new.
create function ferryman.repair_sequence(of_table text, out previous_id bigint, out current_id bigint, out moved bigint)
language plpgsql set lock_timeout = '250ms' as $$
declare
    place text := case of_table when 'ingest_cursor_event' then 'seq' else 'id' end;
    written text := case of_table when 'events' then 'logged_at' else 'at' end;
    append_only text := case when of_table in ('events', 'ingest_cursor_event') then of_table || '_append_only' end;
    own_sequence text := pg_get_serial_sequence('ferryman.' || of_table, place);
    other_columns text := (
        select string_agg(quote_ident(attname), ', ' order by attnum)
        from pg_attribute
        where attrelid = ('ferryman.' || of_table)::regclass and attnum > 0 and not attisdropped and attname <> place);
    newer_than timestamptz;
begin
    -- The snapshot of a repeatable read transaction may be older than the table lock. It lacks the rows that were committed between.
    if current_setting('transaction_isolation') <> 'read committed' then
        perform ferryman.refuse('CONNECTION_UNFIT',
            format('This transaction is %s and may not see all rows of %s. Use a read committed transaction. Nothing was changed.',
                   current_setting('transaction_isolation'), of_table),
            '{}');
    end if;
    if not pg_try_advisory_xact_lock(hashtextextended('ferryman.sequences', 0)) then
        return;
    end if;
    execute format('lock table only ferryman.%I in share row exclusive mode', of_table);
    execute format('select case when is_called then pg_sequence_last_value(%L::regclass) else 0 end from %s', own_sequence, own_sequence)
        into previous_id;
    execute format('select coalesce(max(%I), 0) from ferryman.%I', place, of_table) into current_id;
    if of_table = 'events' then
        current_id := greatest(current_id,
                               (select max(greatest(last_id, mark_id)) from ferryman.consumers),
                               (select max(after_id) from ferryman.webhooks),
                               (select max(event_id) from ferryman.webhook_deliveries));
    end if;
    moved := 0;
    if previous_id >= current_id then
        current_id := previous_id;
        return;
    end if;
    if previous_id > 0 then
        execute format(
            'select first.at + (last.at - first.at) / 2
             from (select %2$I as at from ferryman.%3$I where %1$I > $1 order by %1$I limit 1) as first,
                  (select max(at) as at
                   from (select %2$I as at from ferryman.%3$I where %1$I > $1 order by %1$I desc limit 1000) as newest) as last',
            place, written, of_table) using previous_id into newer_than;
        if append_only is not null then
            execute format('alter table only ferryman.%I disable trigger %I', of_table, append_only);
        end if;
        execute format(
            'with taken as (
                 delete from ferryman.%1$I where %2$I <= $1 and ($3 is null or %3$I > $3) returning *
             )
             insert into ferryman.%1$I (%2$I, %4$s) overriding system value
             select $2 + row_number() over (order by %2$I), %4$s from taken',
            of_table, place, written, other_columns) using previous_id, current_id, newer_than;
        get diagnostics moved = row_count;
        if append_only is not null then
            execute format('alter table only ferryman.%I enable trigger %I', of_table, append_only);
        end if;
    end if;
    current_id := current_id + moved;
    -- ALTER SEQUENCE is taken back with this transaction, setval() would not be. The log's end is read as 0 before the first draw.
    execute format('alter sequence %s restart with %s', own_sequence, current_id);
    perform nextval(own_sequence);
end
$$;

comment on function ferryman.repair_sequence(text) is 'Moves a sequence that is behind its table past all ids in use. See the view sequences.';

-- Where the sequence has passed the old ids by itself, it is not behind any more, but ids occur twice. This looks for the lowest and
-- highest ids of the log and of each of its days, by index. It reads through the log itself: a role may lack rights on partitions.
create function ferryman.repeated_event_ids() returns setof bigint
language plpgsql stable as $$
declare
    of_day constant text := '(select array(select id from ferryman.events where %1$s order by id limit 5)
                           || array(select id from ferryman.events where %1$s order by id desc limit 5))';
    day date;
    candidates bigint[];
    in_day bigint[];
begin
    execute 'select ' || format(of_day, 'true') into candidates;
    for day in
        select to_date(substr(partition.relname, 8), 'YYYYMMDD')
        from pg_inherits
        join pg_class as partition on partition.oid = inhrelid
        where inhparent = 'ferryman.events'::regclass and partition.relname ~ '^events_[0-9]{8}$'
    loop
        execute 'select ' || format(of_day, format('logged_at >= %L and logged_at < %L',
                                                   to_char(day, 'YYYY-MM-DD 00:00:00+00'), to_char(day + 1, 'YYYY-MM-DD 00:00:00+00')))
            into in_day;
        candidates := candidates || in_day;
    end loop;
    return query
        select event.id from ferryman.events as event where event.id = any(candidates) group by event.id having count(*) > 1 order by event.id;
end
$$;

comment on function ferryman.repeated_event_ids() is 'Some ids that occur twice in the log. Empty if none do.';
