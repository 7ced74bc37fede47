-- create_tasks counts the tasks of a queue with max_depth. A repeatable read or serializable transaction counts an old snapshot and
-- would exceed the bound, so it is refused, as a lent transaction of Python is.

create or replace function ferryman.refuse(code text, said text, about jsonb) returns void
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
            when 'CONNECTION_UNFIT' then 'FM015'
        end,
        message = code,
        detail = (jsonb_build_object('message', said) || about)::text,
        hint = said;
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
    -- The count below must see what was committed before the lock was taken.
    if found and current_setting('transaction_isolation') <> 'read committed' then
        perform ferryman.refuse('CONNECTION_UNFIT',
            format('This transaction is %s and does not see the tasks that were created since it began, so it cannot count those of '
                   'a queue with max_depth. Use a read committed transaction. Nothing was stored.',
                   current_setting('transaction_isolation')),
            '{}');
    end if;
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
