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

-- The calls that a parked task waits for; none if its last move was no park: then it backs off.
create function ferryman.parked(id uuid) returns setof ferryman.task_steps
language sql stable as $$
    select step.*
    from ferryman.tasks as task
    join ferryman.task_steps as step on step.task = task.id and step.state = 'open'
    cross join lateral (
        select event.data ? 'parked' as parked
        from ferryman.events as event
        where event.subject = task.id and event.kind = 'task' and event.to_state is not null
        order by event.id desc
        limit 1
    ) as last
    where task.id = parked.id and task.state = 'ready' and task.wake_at is not null and last.parked
$$;

-- What a parked task waits for.
create function ferryman.reasons_tasks_waits(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select case step.kind when 'sleep' then 'sleeping' when 'event' then 'waiting_for_event' else 'waiting_for_child' end,
           case step.kind
               when 'sleep' then format('It sleeps until %s (%s).', ferryman.spelled(step.until), step.name)
               when 'event' then format('It waits for the event %s until %s.', step.name, ferryman.spelled(step.until))
               else format('It waits for its child %s (%s), which is %s.', step.child, step.name, coalesce(child.state, 'gone')) end,
           step.until, jsonb_strip_nulls(jsonb_build_object('name', step.name, 'child', step.child, 'child_state', child.state))
    from ferryman.parked(reasons_tasks_waits.id) as step
    left join ferryman.tasks as child on child.id = step.child
    order by step.at, step.name, step.nth
$$;

-- What is agreed for the queue of a task that could be claimed, for all tenants and for its own, and whether that is used up.
create function ferryman.reasons_tasks_queues(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with task as materialized (
        select each.* from ferryman.tasks as each where each.id = reasons_tasks_queues.id and each.rank is not null
    ),
    agreed as materialized (
        select queue.* from task join ferryman.queues as queue on queue.name = task.queue and queue.tenant in ('*', task.tenant)
    )
    select 'queue_paused',
           format('Its queue %s has been paused%s since %s.', agreed.name, case agreed.tenant when '*' then '' else ' for its tenant' end,
                  ferryman.spelled(agreed.paused_at)), null::timestamptz, jsonb_build_object('paused_at', agreed.paused_at)
    from agreed
    where agreed.paused_at is not null
    union all
    select 'name_paused', format('Its handler %s has been paused since %s.', paused.name, ferryman.spelled(paused.paused_at)), null,
           jsonb_build_object('paused_at', paused.paused_at)
    from task
    join ferryman.paused_names as paused on paused.name = task.name
    union all
    select 'queue_limit',
           format('%s of its queue %s run%s, as many as may; the first lease ends at %s.', held.count, agreed.name,
                  case agreed.tenant when '*' then '' else ' for its tenant' end, ferryman.spelled(held.until)),
           held.until, jsonb_build_object('concurrency', agreed.concurrency, 'holders', held.ids)
    from agreed, task
    cross join lateral (
        -- Of other tenants' tasks the number is told, and nothing else.
        select count(*) as count, min(holder.leased_until) as until,
               (array_agg(holder.id order by holder.leased_until) filter (where holder.tenant = task.tenant))[:10] as ids
        from ferryman.tasks as holder
        where holder.queue = agreed.name and (agreed.tenant = '*' or holder.tenant = agreed.tenant)
          and holder.slot and holder.leased_until is not null
    ) as held
    where held.count >= agreed.concurrency
    union all
    select 'key_limit',
           format('%s with its key %s run, as many as may; the first lease ends at %s.', held.count, task.limit_key, ferryman.spelled(held.until)),
           held.until, jsonb_build_object('limit_key', task.limit_key, 'key_concurrency', room.slots, 'holders', held.ids)
    from task
    cross join lateral (
        select coalesce((select own.key_concurrency from agreed as own where own.tenant <> '*'),
                        (select whole.key_concurrency from agreed as whole where whole.tenant = '*'), 1) as slots
    ) as room
    cross join lateral (
        select count(*) as count, min(holder.leased_until) as until, (array_agg(holder.id order by holder.leased_until))[:10] as ids
        from ferryman.tasks as holder
        where holder.queue = task.queue and holder.tenant = task.tenant and holder.limit_key = task.limit_key
          and holder.slot and holder.leased_until is not null
    ) as held
    where task.limit_key is not null and held.count >= room.slots
    union all
    select 'rate_gate',
           format('The rate of its queue %s, %s in %s, is used up; the next may start at %s.', agreed.name, agreed.rate_count,
                  agreed.rate_interval, ferryman.spelled(gate.opens_at)),
           gate.opens_at, jsonb_build_object('rate_count', agreed.rate_count, 'burst', agreed.burst)
    from agreed
    cross join lateral (
        select agreed.open_at - (agreed.burst - 1) * (agreed.rate_interval / agreed.rate_count) as opens_at
    ) as gate
    where agreed.rate_count is not null and gate.opens_at > ferryman.clock()
$$;

-- Standing orders.
create function ferryman.explained_schedules(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'schedule', 'id', schedule.id, 'schedule_id', coalesce(schedule.schedule_id, schedule.id::text),
        'tenant', schedule.tenant, 'name', schedule.name, 'queue', schedule.queue, 'state', schedule.state,
        'doing', case schedule.state when 'active' then 'It waits for its next firing.' when 'paused' then 'It is paused.'
                 else 'It has ended.' end)
    from ferryman.schedules as schedule
    where schedule.id = explained_schedules.id
$$;

create function ferryman.reasons_schedules(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select case when schedule.next_run_at > ferryman.clock() then 'fires_at'
                when schedule.next_run_at is not null then 'firing_due'
                when schedule.ended_at is not null then 'schedule_ended' else 'schedule_paused' end,
           case when schedule.next_run_at > ferryman.clock() then format('It fires next at %s.', ferryman.spelled(schedule.next_run_at))
                when schedule.next_run_at is not null then
                    format('It has been due since %s; the next look of a worker fires it.', ferryman.spelled(schedule.next_run_at))
                when schedule.ended_at is not null then format('It ended at %s.', ferryman.spelled(schedule.ended_at))
                else format('It was paused at %s: nothing fires until it is resumed.', ferryman.spelled(schedule.updated_at)) end,
           schedule.next_run_at,
           jsonb_build_object('last_run_at', schedule.last_run_at, 'fired', schedule.fired, 'missed', schedule.missed,
                              'skipped', schedule.skipped)
    from ferryman.schedules as schedule
    where schedule.id = reasons_schedules.id
$$;

-- Why a task waits for a time, who runs it, how it ended.
create function ferryman.reasons_tasks(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with clock as materialized (
        select ferryman.clock() as now
    ),
    task as materialized (
        select each.*, exists (select from ferryman.parked(each.id)) as parked
        from ferryman.tasks as each
        where each.id = reasons_tasks.id
    )
    select 'not_due', format('It is due at %s.', ferryman.spelled(task.wake_at)), task.wake_at, '{}'::jsonb
    from task, clock
    where task.state = 'pending' and task.wake_at > clock.now
    union all
    select 'backing_off',
           format('Attempt %s ended with %s; the next one may begin at %s.', task.attempt - 1, coalesce(task.last_error_code, 'no word'),
                  ferryman.spelled(task.wake_at)),
           task.wake_at, jsonb_build_object('last_error_code', task.last_error_code, 'last_error_reason', task.last_error_reason)
    from task, clock
    where task.state = 'ready' and task.wake_at > clock.now and not task.parked
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
              and other.limit_key is null and task.limit_key is null and (other.rank, other.id) < (task.rank, task.id)
            union all
            select from ferryman.tasks as other
            where other.queue = task.queue and other.tenant = task.tenant and other.rank is not null
              and other.limit_key = task.limit_key and (other.rank, other.id) < (task.rank, task.id)
            limit 1000
        ) as before
    ) as ahead
    where seen.take > 0 and task.rank is not null and task.ends_at > ferryman.clock()
      and not exists (select from ferryman.reasons_tasks_queues(task.id))
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
