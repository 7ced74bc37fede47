-- K22: what is this doing, why is it not running, and what ends it? One function asks those that know:
--   explained_<domain>(uuid) returns jsonb                        what the object is, or null if it is not of that domain
--   reasons_<topic>(uuid) returns table (code, says, until, about) why it does not run, each with the time when that ends, if there is one
-- A domain, or a part of one, adds its functions beside these in a migration of its own. They are found by their names.

create function ferryman.spelled(moment timestamptz) returns text
language sql stable parallel safe as $$
    select to_char(moment at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"')
$$;

create function ferryman.explain(id uuid) returns jsonb
language plpgsql stable as $$
declare
    asked constant uuid := id;
    told jsonb;
    more jsonb;
    reasons jsonb := '[]';
    asks regproc;
begin
    for asks in
        select known.oid from pg_proc as known
        where known.pronamespace = (select pronamespace from pg_proc where oid = 'ferryman.explain(uuid)'::regprocedure)
          and known.proname like 'explained\_%' and known.proargtypes = '2950'::oidvector
        order by known.proname
    loop
        execute format('select %s($1)', asks) into told using asked;
        exit when told is not null;
    end loop;
    if told is null then
        return null;
    end if;
    for asks in
        select known.oid from pg_proc as known
        where known.pronamespace = (select pronamespace from pg_proc where oid = 'ferryman.explain(uuid)'::regprocedure)
          and known.proname like 'reasons\_%' and known.proargtypes = '2950'::oidvector
        order by known.proname
    loop
        execute format(
            'select jsonb_agg(jsonb_build_object(''code'', code, ''says'', says, ''until'', until, ''about'', about)) from %s($1)', asks)
            into more using asked;
        reasons := reasons || coalesce(more, '[]');
    end loop;
    return told || jsonb_build_object('reasons', reasons, 'ends', (
        select jsonb_build_object(
            'rule', bound.rule, 'ends_by', bound.ends_by, 'terminal_by', bound.terminal_by,
            'says', format(
                case bound.rule
                    when 'W13' then 'W13 ends this attempt at %s unless its lease is renewed'
                    when 'T21' then 'T21 cancels it at %s if it still waits then'
                    else bound.rule || ' acts on it at %s' end
                || case when bound.terminal_by is null then '.' else '; it has ended for good by %s.' end,
                ferryman.spelled(bound.ends_by), ferryman.spelled(bound.terminal_by)))
        from ferryman.bounds as bound
        where bound.id = asked
        limit 1));
end
$$;

comment on function ferryman.explain is 'What an object is doing, why it is not running, and what ends it when; null if there is none.';

create function ferryman.explained_tasks(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'task', 'id', task.id, 'task_id', coalesce(task.task_id, task.id::text), 'tenant', task.tenant, 'name', task.name,
        'queue', task.queue, 'state', task.state, 'attempt', task.attempt, 'max_attempts', 1 + task.max_retries,
        'doing', case
            when task.finished_at is not null then 'It has ended.'
            when task.leased_until is not null then format('It runs, attempt %s of %s.', task.attempt, 1 + task.max_retries)
            when task.wake_at is not null then 'It waits for a time.'
            else 'It waits for a worker.' end)
    from ferryman.tasks as task
    where task.id = explained_tasks.id
$$;

-- Why a task waits for a time, who runs it, how it ended.
create function ferryman.reasons_tasks(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with clock as materialized (
        select ferryman.clock() as now
    ),
    task as materialized (
        select each.* from ferryman.tasks as each where each.id = reasons_tasks.id
    )
    select 'not_due', format('It is due at %s.', ferryman.spelled(task.wake_at)), task.wake_at, '{}'::jsonb
    from task, clock
    where task.state = 'pending' and task.wake_at > clock.now
    union all
    select 'backing_off',
           format('Attempt %s ended with %s; the next one may begin at %s.', task.attempt - 1, task.last_error_code, ferryman.spelled(task.wake_at)),
           task.wake_at, jsonb_build_object('last_error_code', task.last_error_code, 'last_error_reason', task.last_error_reason)
    from task, clock
    where task.state = 'ready' and task.wake_at > clock.now and task.attempt > 1 and task.last_error_code is not null
    union all
    select 'due', format('It has been due since %s; the sweep of the next worker lets it in.', ferryman.spelled(task.wake_at)), null, '{}'
    from task, clock
    where task.wake_at <= clock.now
    union all
    select 'leased',
           format('%s holds it since %s; the lease ends at %s unless it is renewed, the attempt at %s at the latest.',
                  coalesce(format('Worker %s (pid %s)', worker.host, worker.pid), 'A worker that has gone'),
                  ferryman.spelled(task.started_at), ferryman.spelled(task.leased_until),
                  ferryman.spelled(task.started_at + task.timeout_ms * interval '1 ms')),
           task.leased_until,
           jsonb_build_object('lease_owner', task.lease_owner, 'host', worker.host, 'pid', worker.pid, 'started_at', task.started_at,
                              'times_out_at', task.started_at + task.timeout_ms * interval '1 ms', 'lease_count', task.lease_count)
    from task
    left join ferryman.workers as worker on worker.boot_id = task.lease_owner
    where task.leased_until is not null
    union all
    select 'holder_silent',
           case when worker.boot_id is null then 'Its worker is gone.'
                else format('Its worker has not been heard of since %s.', ferryman.spelled(worker.seen_until)) end
           || ' When the lease has ended the attempt counts as timed out.',
           greatest(task.leased_until, dog.grace_until), jsonb_build_object('seen_until', worker.seen_until)
    from clock, ferryman.watchdog as dog, task
    left join ferryman.workers as worker on worker.boot_id = task.lease_owner
    where task.leased_until is not null and coalesce(worker.seen_until < clock.now, true)
    union all
    select 'ended',
           case task.state
               when 'succeeded' then format('It succeeded at %s.', ferryman.spelled(task.finished_at))
               when 'failed' then format('It failed at %s with %s: %s.', ferryman.spelled(task.finished_at), task.last_error_code,
                                         rtrim(coalesce(task.last_error_reason, 'no reason was kept'), '.'))
               else format('It was cancelled at %s%s.', ferryman.spelled(task.finished_at),
                           ': ' || rtrim(concat_ws(': ', last.reason_code, coalesce(last.reason_message, 'nobody said why')), '.')) end,
           null,
           jsonb_build_object('finished_at', task.finished_at, 'reason_code', coalesce(last.reason_code, task.last_error_code),
                              'reason', coalesce(last.reason_message, task.last_error_reason), 'kept_until', task.finished_at + kept.keeping)
    from task
    left join lateral (
        select event.reason_code, event.reason_message
        from ferryman.events as event
        where event.subject = task.id and event.kind = 'task' and event.to_state = task.state
        order by event.id desc
        limit 1
    ) as last on true
    left join lateral (
        select setting.value::text::float8 * interval '1 s' as keeping
        from ferryman.settings as setting
        where setting.name = case task.state when 'failed' then 'tasks.retention_failed_seconds' else 'tasks.retention_seconds' end
    ) as kept on true
    where task.finished_at is not null
$$;

-- Whether anybody would take a task that waits, and how many stand before it.
create function ferryman.reasons_tasks_workers(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with task as materialized (
        select each.* from ferryman.tasks as each
        where each.id = reasons_tasks_workers.id and each.finished_at is null and each.leased_until is null
    ),
    alive as materialized (
        select worker.boot_id, worker.queues,
               task.queue = any(worker.queues) as serves,
               task.queue = any(worker.queues) and task.name = any(worker.handlers) as knows,
               -- A worker of a release that does not tell which kinds it knows may know this one.
               task.queue = any(worker.queues) and task.name = any(worker.handlers)
                   and (task.callback is null or coalesce(worker.settings -> 'callbacks' ? task.callback, true)) as takes
        from task, ferryman.workers as worker
        where worker.seen_until >= ferryman.clock()
    ),
    seen as materialized (
        select count(*) as alive, count(*) filter (where serves) as serve, count(*) filter (where knows) as know,
               count(*) filter (where takes) as take
        from alive
    )
    select 'no_worker', 'No worker is alive.', null::timestamptz, '{}'::jsonb
    from task, seen
    where seen.alive = 0
    union all
    select 'queue_not_served',
           format('No living worker serves its queue %s; they serve %s.', task.queue,
                  (select string_agg(distinct queue, ', ') from alive, unnest(alive.queues) as queue)),
           null, jsonb_build_object('queue', task.queue, 'workers', seen.alive)
    from task, seen
    where seen.alive > 0 and seen.serve = 0
    union all
    select 'handler_unknown', format('No living worker of its queue %s knows the handler %s.', task.queue, task.name), null,
           jsonb_build_object('name', task.name, 'queue', task.queue, 'workers', seen.serve)
    from task, seen
    where seen.serve > 0 and seen.know = 0
    union all
    select 'callback_unknown',
           format('Its end is owed to an owner of kind %s, which no living worker of its queue and handler knows.', task.callback), null,
           jsonb_build_object('callback', task.callback, 'workers', seen.know)
    from task, seen
    where seen.know > 0 and seen.take = 0
    union all
    select 'in_line',
           format('It can be claimed: %s stand before it in its queue, and %s would take it.',
                  case ahead.count when 0 then 'none' when 1000 then '1000 or more' else ahead.count::text end,
                  case seen.take when 1 then 'one living worker' else seen.take || ' living workers' end),
           null, jsonb_build_object('ahead', ahead.count, 'workers', seen.take)
    from task, seen
    cross join lateral (
        select count(*) as count
        from (
            select from ferryman.tasks as other
            where other.queue = task.queue and other.tenant = task.tenant and other.rank is not null
              and (other.rank, other.id) < (task.rank, task.id)
            limit 1000
        ) as before
    ) as ahead
    where seen.take > 0 and task.rank is not null and task.ends_at > ferryman.clock()
    union all
    select 'expired', format('Its ends_at passed at %s: nothing claims it, and T21 cancels it at its next look.', ferryman.spelled(task.ends_at)),
           null, '{}'
    from task
    where task.ends_at <= ferryman.clock()
$$;

-- Whether somebody watches: without that nothing that hangs is ended.
create function ferryman.reasons_watchdog(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select 'watchdog_silent', format('No watchdog has ticked since %s: nobody ends what hangs.', ferryman.spelled(dog.ticked_at)),
           null::timestamptz, jsonb_build_object('ticked_at', dog.ticked_at)
    from ferryman.watchdog as dog
    where dog.ticked_at < clock_timestamp() - ferryman.slack()
      and exists (select from ferryman.bounds as bound where bound.id = reasons_watchdog.id)
    union all
    select 'grace', format('After an outage no lease is judged before %s.', ferryman.spelled(dog.grace_until)), dog.grace_until, '{}'
    from ferryman.watchdog as dog
    where dog.grace_until > clock_timestamp()
      and exists (select from ferryman.bounds as bound where bound.id = reasons_watchdog.id and bound.rule = 'W13')
$$;
