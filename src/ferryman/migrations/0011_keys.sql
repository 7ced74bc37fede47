-- Keys reach every way in (T17): firings take them from their schedule, and `create_tasks` (K16) takes them like the door.

alter table ferryman.schedules
    add column limit_key text,
    add column singleton text,
    add column debounce text,
    add column quiet interval;

comment on column ferryman.schedules.limit_key is 'The keys of its firings (see tasks), made of its payload when it was written.';
comment on column ferryman.schedules.quiet is 'How long its firings wait for another call with the same debounce.';

-- How long a call waits for quiet: seconds, at most a day.
create function ferryman.quiet_in(asked jsonb, place integer) returns interval
language plpgsql as $$
declare
    given jsonb := asked -> 'debounce';
begin
    if given is null or given = 'null' then
        return null;
    end if;
    if jsonb_typeof(given) <> 'number' or given::numeric <= 0 or given::numeric > 86400 then
        perform ferryman.refuse_field('TASK_INVALID_REQUEST', 'debounce', 'more than 0 s and at most a day', given, place);
    end if;
    return given::float8 * interval '1 s';
end
$$;

-- What a task that was not born meets by its keys, as in tasks/sql/tasks/standing.sql and postpone.sql: the live one with its
-- singleton, or the waiting one with its debounce, which then waits anew with the newest payload. Null: it has gone.
create function ferryman.meet_task(whose text, single text, quieted text, newest jsonb, quiet interval) returns uuid
language plpgsql as $$
declare
    now constant timestamptz := ferryman.clock();
    met uuid;
begin
    select task.id into met
    from ferryman.tasks as task
    where task.tenant = whose and task.singleton = single and task.finished_at is null;
    if met is null then
        update ferryman.tasks as task
        set payload = newest, updated_at = now,
            due_at = case when now + quiet < task.ends_at then now + quiet else task.due_at end,
            wake_at = case when now + quiet < task.ends_at then now + quiet else task.wake_at end
        where task.tenant = whose and task.debounce = quieted and task.state = 'pending'
        returning task.id into met;
    end if;
    return met;
end
$$;

-- A checked request: the row to be born.
create or replace function ferryman.draft_task(asked jsonb, place integer, known jsonb) returns ferryman.tasks
language plpgsql as $$
declare
    fields constant text[] := array['tenant', 'task_id', 'name', 'queue', 'priority', 'schedule_type', 'scheduled_at', 'timeout_ms',
        'max_retries', 'backoff', 'idempotency_key', 'idempotency_scope', 'ends_at', 'payload', 'traceparent',
        'limit_key', 'singleton', 'debounce', 'debounce_key'];
    name constant text := '^[A-Za-z0-9_.:-]{1,200}$';
    named constant text := '1 to 200 characters of letters, digits, _ . : -';
    key constant text := '^(?=.*[^\s\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000])[^\u0001-\u001f\u007f-\u009f\u2028\u2029]{1,200}$';
    keyed constant text := '1 to 200 printable characters';
    draft ferryman.tasks;
    stray text;
    quiet interval;
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
    draft.limit_key := ferryman.text_in(asked, 'limit_key', key, keyed, place);
    draft.singleton := case when jsonb_typeof(asked -> 'singleton') = 'boolean'
        then case when (asked -> 'singleton')::boolean then draft.name end
        else ferryman.text_in(asked, 'singleton', key, keyed, place) end;
    quiet := ferryman.quiet_in(asked, place);
    draft.debounce := coalesce(ferryman.text_in(asked, 'debounce_key', key, keyed, place), draft.name);
    if quiet is null then
        if asked ->> 'debounce_key' is not null then
            perform ferryman.refuse_field('TASK_INVALID_REQUEST', 'debounce_key', 'it together with debounce', '"it alone"', place);
        end if;
        draft.debounce := null;
    end if;
    -- What waits for quiet waits from now; greatest() passes over what is null.
    draft.due_at := coalesce(greatest(draft.scheduled_at, draft.created_at + quiet), draft.created_at);
    draft.ends_at := ferryman.time_in(asked, 'ends_at', 'TASK_INVALID_REQUEST', place);
    if draft.ends_at <= draft.scheduled_at then
        perform ferryman.refuse_field('TASK_INVALID_REQUEST', 'ends_at', 'a time after scheduled_at', asked -> 'ends_at', place);
    end if;
    if quiet is not null and draft.ends_at <= draft.created_at + quiet then
        perform ferryman.refuse_field('TASK_INVALID_REQUEST', 'debounce', 'a wait that is over before ends_at', asked -> 'debounce', place);
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

-- One request or an array of them: all are created, or none. Answers in the order of the requests, each with what exists now:
-- born, met by its identity, met as a singleton that lives, or a waiting task that was put off once more.
create or replace function ferryman.create_tasks(asked jsonb)
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
        order by coalesce(draft.singleton, '') collate "C", coalesce(draft.debounce, '') collate "C",
                 coalesce(draft.idempotency_key, '') collate "C", coalesce(draft.idempotency_scope, '') collate "C",
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
                idempotency_key, idempotency_scope, traceparent, backoff, limit_key, singleton, debounce, due_at, ends_at, state, rank, wake_at, created_at, updated_at)
            select draft.id, draft.tenant, draft.queue, draft.name, draft.payload, draft.priority, draft.timeout_ms, draft.max_retries,
                   draft.schedule_type, draft.scheduled_at, draft.task_id, draft.idempotency_key, draft.idempotency_scope,
                   draft.traceparent, draft.backoff, draft.limit_key, draft.singleton, draft.debounce, draft.due_at, draft.ends_at, draft.state, draft.rank, draft.wake_at,
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
            if made is null then
                existing.id := ferryman.meet_task(word.tenant, word.singleton, word.debounce, word.payload,
                                                  ferryman.quiet_in(word.asked, word.place));
                if existing.id is not null then
                    hits := hits || word.place;
                    met := met || existing.id;
                end if;
                continue;
            end if;
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
                          array_agg(distinct draft.queue || chr(31) || draft.tenant || case when draft.limit_key is null then '' else chr(31) end)
                              filter (where draft.state = 'ready'))
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
