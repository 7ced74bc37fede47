-- K16: tasks can be created by one function call, from any language, in any transaction: what it makes is there if and only
-- if that transaction commits. It checks and compares as the door in Python does, with the same codes: SQLSTATE FM010 and on, the
-- code as message, and as detail a JSON object with what a person and a program want to know.

create function ferryman.refuse(code text, said text, about jsonb) returns void
language plpgsql
set search_path = pg_catalog
as $$
begin
    raise exception using
        errcode = case code
            when 'TASK_INVALID_REQUEST' then 'FM010'
            when 'TASK_INVALID_SCHEDULE' then 'FM011'
            when 'TASK_INVALID_PAYLOAD' then 'FM012'
            when 'TASK_DUPLICATE' then 'FM013'
            when 'TASK_QUEUE_FULL' then 'FM014'
        end,
        message = code,
        detail = (jsonb_build_object('message', said) || about)::text,
        hint = said;
end
$$;

-- A field that is not what was expected: which one, in the how-manieth task, and what it was.
create function ferryman.refuse_field(code text, field text, expected text, got jsonb, place integer) returns void
language plpgsql as $$
begin
    perform ferryman.refuse(
        code,
        format('%s: expected %s, got %s.', field, expected, case when got is null or got = 'null' then 'none' else left(got::text, 60) end),
        jsonb_build_object('field', field, 'place', place));
end
$$;

-- Ids grow with time, as those that the library makes (UUID version 7): milliseconds, then a part of one.
create function ferryman.new_id() returns uuid
language sql volatile as $$
    select encode(
        substring(int8send(micros / 1000) from 3)
        || set_byte(substring(int8send((micros % 1000) * 4096 / 1000) from 7), 0, (112 | ((micros % 1000) * 4096 / 1000 / 256))::integer)
        || set_byte(substring(random from 9), 0, 128 | (get_byte(random, 8) & 63)), 'hex')::uuid
    from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as micros, uuid_send(gen_random_uuid()) as random) as made
$$;

create function ferryman.text_in(asked jsonb, field text, pattern text, expected text, place integer) returns text
language plpgsql as $$
begin
    if asked ->> field is not null and (jsonb_typeof(asked -> field) <> 'string' or asked ->> field collate "C" !~ pattern) then
        perform ferryman.refuse_field('TASK_INVALID_REQUEST', field, expected, asked -> field, place);
    end if;
    return asked ->> field;
end
$$;

create function ferryman.whole_in(asked jsonb, field text, lowest bigint, highest bigint, place integer) returns bigint
language plpgsql as $$
begin
    if jsonb_typeof(asked -> field) = 'null' then
        return null;
    end if;
    if jsonb_typeof(asked -> field) <> 'number' or (asked ->> field) !~ '^-?[0-9]{1,18}$'
       or (asked ->> field)::bigint not between lowest and highest then
        perform ferryman.refuse_field('TASK_INVALID_REQUEST', field,
            format('a whole number from %s to %s', lowest, highest), asked -> field, place);
    end if;
    return (asked ->> field)::bigint;
end
$$;

-- A time in ISO 8601 that says its UTC offset: a naive one would be read in the time zone of whoever asks.
create function ferryman.time_in(asked jsonb, field text, code text, place integer) returns timestamptz
language plpgsql as $$
declare
    value text := asked ->> field;
    day constant text := '^\d{4}-\d{2}-\d{2}[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d([.,]\d{1,9})?)?';
    moment timestamptz;
begin
    if value is null then
        return null;
    end if;
    if jsonb_typeof(asked -> field) = 'string' and (value ~ (day || '$') or value ~ '^\d{4}-\d{2}-\d{2}$') then
        perform ferryman.refuse_field(code, field, 'a time with its UTC offset, such as 2030-01-01T00:00:00Z', asked -> field, place);
    end if;
    if jsonb_typeof(asked -> field) <> 'string' or value !~ (day || '(Z|[+-]\d{2}(:?\d{2})?)$') then
        perform ferryman.refuse_field(code, field, 'a time in ISO 8601', asked -> field, place);
    end if;
    begin
        moment := value::timestamptz;
    exception
        when datetime_field_overflow or invalid_datetime_format or invalid_time_zone_displacement_value then
            perform ferryman.refuse_field(code, field, 'a time in ISO 8601', asked -> field, place);
    end;
    if extract(year from moment at time zone 'UTC') >= 9000 then
        perform ferryman.refuse_field(code, field, 'a time before the year 9000', asked -> field, place);
    end if;
    return moment;
end
$$;

-- A backoff in any form that the door takes (seconds, a list of seconds, an object), in the form that is stored.
create function ferryman.backoff_in(asked jsonb, place integer) returns jsonb
language plpgsql as $$
declare
    code constant text := 'TASK_INVALID_REQUEST';
    year constant numeric := 31536000;
    given jsonb := case jsonb_typeof(asked -> 'backoff')
        when 'number' then jsonb_build_object('kind', 'fixed', 'base_seconds', asked -> 'backoff')
        when 'array' then jsonb_build_object('kind', 'list', 'delays_seconds', asked -> 'backoff')
        else asked -> 'backoff'
    end;
    whole jsonb;
    wrong record;
begin
    if given is null or given = 'null' then
        return null;
    end if;
    if jsonb_typeof(given) <> 'object' then
        perform ferryman.refuse_field(code, 'backoff', 'seconds, a list of seconds or an object', given, place);
    end if;
    whole := case coalesce(given ->> 'kind', 'exponential')
        when 'fixed' then '{"jitter": 0.1, "base_seconds": 1}'
        when 'list' then '{"jitter": 0.1, "delays_seconds": []}'
        when 'exponential' then '{"jitter": 0.1, "base_seconds": 1, "factor": 2.0, "cap_seconds": 60, "kind": "exponential"}'
    end;
    if whole is null then
        perform ferryman.refuse_field(code, 'backoff.kind', 'fixed, exponential or list', given -> 'kind', place);
    end if;
    select key into wrong from jsonb_object_keys(given) as key where not (whole ? key) and key <> 'kind' order by key limit 1;
    if found then
        perform ferryman.refuse_field(code, 'backoff.' || wrong.key, 'no such field in this kind of backoff', given -> wrong.key, place);
    end if;
    if not given ? 'cap_seconds' and whole ? 'cap_seconds' and jsonb_typeof(given -> 'base_seconds') = 'number' then
        whole := whole || jsonb_build_object('cap_seconds', greatest(60, (given ->> 'base_seconds')::numeric));
    end if;
    whole := whole || given;
    if whole ? 'delays_seconds' and (jsonb_typeof(whole -> 'delays_seconds') <> 'array' or whole -> 'delays_seconds' = '[]'
                                     or jsonb_path_exists(whole, '$.delays_seconds[1000]')) then
        perform ferryman.refuse_field(code, 'backoff.delays', '1 to 1000 delays in seconds', whole -> 'delays_seconds', place);
    end if;
    select number.named, number.low, number.high, number.value into wrong
    from (
        select part.named, part.low, part.high, whole -> part.field as value
        from (values ('jitter', 'jitter', 0, 1), ('base', 'base_seconds', 0, year), ('factor', 'factor', 1, 1000),
                     ('cap', 'cap_seconds', 0, year)) as part (named, field, low, high)
        where whole ? part.field
        union all
        select format('delays[%s]', delay.nth - 1), 0, year, delay.value
        from jsonb_array_elements(coalesce(whole -> 'delays_seconds', '[]')) with ordinality as delay (value, nth)
    ) as number
    where case jsonb_typeof(number.value) when 'number' then number.value::numeric not between number.low and number.high else true end
    limit 1;
    if found then
        perform ferryman.refuse_field(
            code, case when jsonb_typeof(asked -> 'backoff') = 'number' then 'backoff' else 'backoff.' || wrong.named end,
            format('a number between %s and %s', wrong.low, wrong.high), wrong.value, place);
    end if;
    if (whole ->> 'cap_seconds')::numeric < (whole ->> 'base_seconds')::numeric then
        perform ferryman.refuse_field(code, 'backoff.cap', 'at least the base', whole -> 'cap_seconds', place);
    end if;
    return whole;
end
$$;

-- What jsonb could hold and others could not read back (K13). Its text shows whether a walk is needed at all.
create function ferryman.refuse_payload(payload jsonb, most bigint, place integer) returns void
language plpgsql as $$
declare
    written text := payload::text;
    culprit record;
begin
    if octet_length(written) > most then
        perform ferryman.refuse('TASK_INVALID_PAYLOAD', format('The value takes %s bytes; %s are allowed.', octet_length(written), most),
            jsonb_build_object('path', '$', 'size', octet_length(written), 'limit', most, 'place', place));
    end if;
    if written !~ '[0-9]{19}' and length(written) - length(translate(written, '[{', '')) <= 128 then
        return;
    end if;
    with recursive node as (
        select payload as value, 0 as depth, '$' as path
        union all
        select part.value, node.depth + 1, node.path || part.step
        from node
        cross join lateral (
            select item.value, format('.%s', item.key) as step
            from jsonb_each(case jsonb_typeof(node.value) when 'object' then node.value else '{}' end) as item
            union all
            select item.value, format('[%s]', item.nth - 1)
            from jsonb_array_elements(case jsonb_typeof(node.value) when 'array' then node.value else '[]' end)
                with ordinality as item (value, nth)
        ) as part
        where node.depth <= 128
    )
    select node.path, case when jsonb_typeof(node.value) = 'number' then 'An integer beyond 64 bits cannot be stored.'
                           else 'The value is nested deeper than 128 levels.' end as said
    into culprit
    from node
    where (node.depth >= 128 and jsonb_typeof(node.value) in ('object', 'array'))
       or case jsonb_typeof(node.value) when 'number' then
              node.value::numeric = trunc(node.value::numeric)
              and node.value::numeric not between -9223372036854775808 and 9223372036854775807
          else false end
    limit 1;
    if found then
        perform ferryman.refuse('TASK_INVALID_PAYLOAD', culprit.said, jsonb_build_object('path', culprit.path, 'place', place));
    end if;
end
$$;

-- A checked request: the row to be born.
create function ferryman.draft_task(asked jsonb, place integer, known jsonb) returns ferryman.tasks
language plpgsql as $$
declare
    fields constant text[] := array['tenant', 'task_id', 'name', 'queue', 'priority', 'schedule_type', 'scheduled_at', 'timeout_ms',
        'max_retries', 'backoff', 'idempotency_key', 'idempotency_scope', 'ends_at', 'payload', 'traceparent'];
    name constant text := '^[A-Za-z0-9_.:-]{1,200}$';
    named constant text := '1 to 200 characters of letters, digits, _ . : -';
    key constant text := '^(?=.*[^\s\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000])[^\u0001-\u001f\u007f-\u009f\u2028\u2029]{1,200}$';
    keyed constant text := '1 to 200 printable characters';
    draft ferryman.tasks;
    stray text;
begin
    if jsonb_typeof(asked) <> 'object' then
        perform ferryman.refuse('TASK_INVALID_REQUEST', format('Expected an object, got %s.', jsonb_typeof(asked)),
            jsonb_build_object('field', null, 'place', place));
    end if;
    if asked ->> 'schedule_type' in ('cron', 'daily', 'every') then
        perform ferryman.refuse_field('TASK_INVALID_SCHEDULE', 'schedule_type',
            '''at'' or none (a schedule is not made by this function)', asked -> 'schedule_type', place);
    end if;
    select field into stray from jsonb_object_keys(asked) as field where field <> all (fields) order by field limit 1;
    if stray is not null then
        perform ferryman.refuse('TASK_INVALID_REQUEST',
            format('%s: expected one of %s; this field is unknown.', stray, array_to_string(fields, ', ')),
            jsonb_build_object('field', stray, 'place', place));
    end if;
    draft.created_at := (known ->> 'now')::timestamptz;
    draft.updated_at := draft.created_at;
    draft.schedule_type := asked ->> 'schedule_type';
    if draft.schedule_type is null and asked ->> 'scheduled_at' is not null then
        perform ferryman.refuse_field('TASK_INVALID_SCHEDULE', 'schedule_type', '''at'' beside scheduled_at', null, place);
    end if;
    if draft.schedule_type <> 'at' or jsonb_typeof(asked -> 'schedule_type') not in ('string', 'null') then
        perform ferryman.refuse_field('TASK_INVALID_SCHEDULE', 'schedule_type', '''at'' or none', asked -> 'schedule_type', place);
    end if;
    draft.scheduled_at := ferryman.time_in(asked, 'scheduled_at', 'TASK_INVALID_SCHEDULE', place);
    if draft.schedule_type is not null and draft.scheduled_at is null then
        perform ferryman.refuse_field('TASK_INVALID_SCHEDULE', 'scheduled_at', 'a time for schedule_type ''at''', null, place);
    end if;
    draft.task_id := ferryman.text_in(asked, 'task_id', name, named, place);
    if draft.task_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
        draft.id := draft.task_id::uuid;
        draft.task_id := null;
    else
        draft.id := ferryman.new_id();
    end if;
    draft.tenant := coalesce(ferryman.text_in(asked, 'tenant', name, named, place), 'default');
    draft.name := coalesce(ferryman.text_in(asked, 'name', name, named, place), 'default');
    draft.queue := coalesce(ferryman.text_in(asked, 'queue', name, named, place), 'default');
    draft.priority := coalesce(ferryman.whole_in(asked, 'priority', -9, 9, place), 0);
    draft.timeout_ms := coalesce(ferryman.whole_in(asked, 'timeout_ms', 1, 31536000000, place), (known ->> 'tasks.timeout_ms')::bigint);
    draft.max_retries := coalesce(ferryman.whole_in(asked, 'max_retries', 0, 10000, place), (known ->> 'tasks.max_retries')::integer);
    draft.idempotency_key := ferryman.text_in(asked, 'idempotency_key', key, keyed, place);
    draft.idempotency_scope := ferryman.text_in(asked, 'idempotency_scope', key, keyed, place);
    if draft.idempotency_scope is not null and draft.idempotency_key is null then
        perform ferryman.refuse_field('TASK_INVALID_REQUEST', 'idempotency_scope', 'together with idempotency_key', '"it alone"', place);
    end if;
    draft.backoff := ferryman.backoff_in(asked, place);
    draft.traceparent := ferryman.text_in(asked, 'traceparent', '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$',
        'a W3C traceparent', place);
    draft.payload := case when asked ->> 'payload' is null then '{}' else asked -> 'payload' end;
    perform ferryman.refuse_payload(draft.payload, (known ->> 'tasks.payload_limit')::bigint, place);
    draft.due_at := coalesce(draft.scheduled_at, draft.created_at);
    draft.ends_at := ferryman.time_in(asked, 'ends_at', 'TASK_INVALID_REQUEST', place);
    if draft.ends_at <= draft.scheduled_at then
        perform ferryman.refuse_field('TASK_INVALID_REQUEST', 'ends_at', 'a time after scheduled_at', asked -> 'ends_at', place);
    end if;
    draft.ends_at := coalesce(draft.ends_at,
        greatest(draft.due_at, draft.created_at) + (known ->> 'tasks.ends_after_seconds')::float8 * interval '1 s');
    if draft.due_at > draft.created_at then
        draft.state := 'pending';
        draft.wake_at := draft.due_at;
    else
        draft.state := 'ready';
        draft.rank := draft.created_at + draft.priority * interval '60 s';
    end if;
    return draft;
end
$$;

-- Tells whoever listens to look, when this transaction commits. Workers with another doorbell find it by polling, and have
-- switched this off (setting ring_within).
create function ferryman.ring(topic text, hints text[]) returns void
language plpgsql as $$
declare
    home text := (select namespace.nspname from pg_class as class join pg_namespace as namespace on namespace.oid = class.relnamespace
                  where class.oid = 'ferryman.settings'::regclass);
    channel text := home || '_doorbell';
    payload text := json_build_array('', topic, case when cardinality(hints) <= 64 then hints else '{}'::text[] end)::text;
begin
    if exists (select from ferryman.settings where name = 'ring_within' and value = 'false') then
        return;
    end if;
    if octet_length(channel) > 63 then
        channel := 'doorbell_' || left(encode(sha256(convert_to(home, 'UTF8')), 'hex'), 32);
    end if;
    if octet_length(payload) > 7999 then
        payload := json_build_array('', topic, '{}'::text[])::text;
    end if;
    perform pg_notify(channel, payload);
end
$$;

-- One request or an array of them: all are created, or none. Answers in the order of the requests, each with what exists now.
create function ferryman.create_tasks(asked jsonb)
returns table (place integer, id uuid, task_id text, idempotent_hit boolean, state text, due_at timestamptz, ends_at timestamptz,
               created_at timestamptz)
language plpgsql as $$
#variable_conflict use_column
declare
    most constant integer := 10000;
    requests jsonb := case jsonb_typeof(asked) when 'array' then asked else jsonb_build_array(asked) end;
    known jsonb := jsonb_build_object('tasks.timeout_ms', 300000, 'tasks.max_retries', 3, 'tasks.ends_after_seconds', 2592000,
            'tasks.payload_limit', 1048576, 'now', ferryman.clock())
        || coalesce((select jsonb_object_agg(setting.name, setting.value) from ferryman.settings as setting
                     where setting.name like 'tasks.%'), '{}');
    drafts ferryman.tasks[];
    waiting integer[];
    born integer[] := '{}';
    hits integer[] := '{}';
    met uuid[] := '{}';
    made uuid[];
    word record;
    existing ferryman.tasks;
    differing text[];
begin
    if asked is null or jsonb_array_length(requests) > most then
        perform ferryman.refuse('TASK_INVALID_REQUEST', format('Expected a task or an array of at most %s.', most), '{"field": null}');
    end if;
    drafts := array(
        select ferryman.draft_task(given.value, given.nth::integer, known)
        from jsonb_array_elements(requests) with ordinality as given (value, nth) order by given.nth);
    -- By key: of two sets that share keys, one waits for the other's first and then for no more.
    waiting := array(
        select draft.ordinality::integer from unnest(drafts) with ordinality as draft
        order by coalesce(draft.idempotency_key, '') collate "C", coalesce(draft.idempotency_scope, '') collate "C",
                 coalesce(draft.task_id, '') collate "C", draft.ordinality);
    -- Who holds the lock of a queue that bounds how much of it is live counts alone, and in one order (sql/queues/deep.sql).
    perform pg_advisory_xact_lock(hashtextextended('ferryman.depth' || chr(31) || queue.name, 0))
    from (
        select bounded.name
        from ferryman.queues as bounded
        where bounded.name in (select draft.queue from unnest(drafts) as draft) and bounded.max_depth is not null
        group by bounded.name
        order by bounded.name collate "C"
        offset 0
    ) as queue;
    for attempt in 1 .. 3 loop
        exit when waiting = '{}';
        with inserted as (
            insert into ferryman.tasks (
                id, tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, scheduled_at, task_id,
                idempotency_key, idempotency_scope, traceparent, backoff, due_at, ends_at, state, rank, wake_at, created_at, updated_at)
            select draft.id, draft.tenant, draft.queue, draft.name, draft.payload, draft.priority, draft.timeout_ms, draft.max_retries,
                   draft.schedule_type, draft.scheduled_at, draft.task_id, draft.idempotency_key, draft.idempotency_scope,
                   draft.traceparent, draft.backoff, draft.due_at, draft.ends_at, draft.state, draft.rank, draft.wake_at,
                   draft.created_at, draft.updated_at
            from unnest(waiting) with ordinality as turn (place, nth)
            join unnest(drafts) with ordinality as draft on draft.ordinality = turn.place
            order by turn.nth
            on conflict do nothing
            returning id, tenant, task_id, state, created_at
        ),
        told as (
            insert into ferryman.events (at, subject, attempt, tenant, kind, to_state, subject_name)
            select created_at, id, 1, tenant, 'task', state, task_id from inserted
        )
        select array_agg(inserted.id) into made from inserted;
        born := born || array(
            select min(turn.place) from unnest(waiting) as turn (place)
            join unnest(drafts) with ordinality as draft on draft.ordinality = turn.place
            where draft.id = any(made) group by draft.id);
        for word in
            select turn.place, draft.*, requests -> (turn.place - 1) as asked
            from unnest(waiting) as turn (place)
            join unnest(drafts) with ordinality as draft on draft.ordinality = turn.place
            where turn.place <> all(born)
            order by turn.place
        loop
            existing := null;
            select array_agg(distinct met.id) as ids into made
            from (
                select task.id from ferryman.tasks as task where task.id = word.id and task.tenant = word.tenant
                union all
                select task.id from ferryman.tasks as task where task.tenant = word.tenant and task.task_id = word.task_id
                union all
                select task.id from ferryman.tasks as task
                where task.tenant = word.tenant and task.idempotency_key = word.idempotency_key
                  and task.idempotency_scope is not distinct from word.idempotency_scope
            ) as met;
            select task.* into existing from ferryman.tasks as task where task.id = made[1];
            continue when not found;
            differing := case when cardinality(made) > 1 then array['task_id', 'idempotency_key'] else array(
                select field from (values
                    (1, 'schedule_type', existing.schedule_type is distinct from word.schedule_type),
                    (2, 'scheduled_at', existing.scheduled_at is distinct from word.scheduled_at),
                    (3, 'timeout_ms', existing.timeout_ms <> word.timeout_ms),
                    (4, 'max_retries', existing.max_retries <> word.max_retries)) as compared (nth, field, differs)
                where differs and word.asked ->> field is not null order by nth) end;
            if differing <> '{}' then
                perform ferryman.refuse('TASK_DUPLICATE',
                    format('The existing task differs from the request in %s.', array_to_string(differing, ', ')),
                    jsonb_build_object('place', word.place, 'conflict_fields', differing, 'existing', ferryman.shown(existing)));
            end if;
            hits := hits || word.place;
            met := met || existing.id;
        end loop;
        waiting := array(select place from unnest(waiting) with ordinality as turn (place, nth)
                         where place <> all(born) and place <> all(hits) order by nth);
    end loop;
    if waiting <> '{}' then
        perform ferryman.refuse('TASK_DUPLICATE', 'A task with this task_id exists and cannot be shown.',
            jsonb_build_object('place', waiting[1], 'conflict_fields', array['task_id']));
    end if;
    -- A full queue refuses the whole call, whatever it does with single tasks: nothing of others' is cancelled from here.
    select lane.queue, lane.tenant, lane.max_depth into word
    from (
        select draft.queue, draft.tenant, count(*) filter (where draft.state = 'pending') as later,
               coalesce((select own.max_depth from ferryman.queues as own where own.name = draft.queue and own.tenant = draft.tenant),
                        (select whole.max_depth from ferryman.queues as whole where whole.name = draft.queue and whole.tenant = '*'))
                   as max_depth
        from unnest(drafts) with ordinality as draft
        where draft.ordinality = any(born)
        group by draft.queue, draft.tenant
    ) as lane
    cross join lateral (
        select count(*) as count from (
            select from ferryman.tasks as task
            where task.queue = lane.queue and task.tenant = lane.tenant and task.rank is not null and task.limit_key is null
            union all
            select from ferryman.tasks as task
            where task.queue = lane.queue and task.tenant = lane.tenant and task.rank is not null and task.limit_key is not null
            union all
            select from ferryman.tasks as task
            where task.queue = lane.queue and task.tenant = lane.tenant and task.slot and task.leased_until is not null
            limit lane.max_depth + 1
        ) as line
        where lane.max_depth is not null
    ) as depth
    where depth.count + lane.later > lane.max_depth
    limit 1;
    if found then
        perform ferryman.refuse('TASK_QUEUE_FULL',
            format('Queue %s takes at most %s tasks of tenant %s.', word.queue, word.max_depth, word.tenant),
            jsonb_build_object('queue', word.queue, 'max_depth', word.max_depth));
    end if;
    -- One ring for each topic, whatever the number of tasks; none if nothing was born.
    perform ferryman.ring(case draft.state when 'ready' then 'ready' else 'due' end,
                          array_agg(distinct draft.queue || chr(31) || draft.tenant) filter (where draft.state = 'ready'))
    from unnest(drafts) with ordinality as draft
    where draft.ordinality = any(born)
    group by draft.state
    order by draft.state desc;
    return query
        select answer.place, task.id, coalesce(task.task_id, task.id::text), answer.hit, task.state, task.due_at, task.ends_at, task.created_at
        from (
            select draft.ordinality::integer, draft.id, false
            from unnest(drafts) with ordinality as draft
            where draft.ordinality = any(born)
            union all
            select hit.place, hit.id, true from unnest(hits, met) as hit (place, id)
        ) as answer (place, id, hit)
        join ferryman.tasks as task on task.id = answer.id
        order by answer.place;
end
$$;

comment on function ferryman.create_tasks is 'Create one task, or an array of them, in this transaction; see docs/guide/transactions.md.';

-- A task as it is shown to callers.
create function ferryman.shown(task ferryman.tasks) returns jsonb
language sql stable as $$
    select to_jsonb(task) - array['payload', 'result', 'lease_owner', 'rank', 'wake_at', 'epoch', 'lease_count', 'callback',
                                  'callback_ref', 'traceparent', 'backoff']
           || jsonb_build_object('task_id', coalesce(task.task_id, task.id::text))
$$;
