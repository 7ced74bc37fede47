-- K24: a grace is wall time, and a wall clock can be set. One that went ahead and back again left a tick and a grace that lay ahead by
-- as much, and for so long nothing was reaped and nothing was overdue. A grace is one lease long: one that ends later is of
-- another clock, and counts for nothing until the next tick puts it right.

-- The longest lease that anybody works with, or that whoever asks does.
create function ferryman.longest_lease(own interval) returns interval
language sql stable as $$
    select greatest(longest_lease.own, max((worker.settings ->> 'lease_seconds')::float8) * interval '1 s')
    from ferryman.workers as worker
$$;

comment on function ferryman.longest_lease(interval) is 'The longest lease that anybody works with, or that whoever asks does.';

-- When the grace after an outage ends, or ended.
create function ferryman.grace_ends() returns timestamptz
language sql stable as $$
    select case when dog.grace_until > clock_timestamp() + ferryman.longest_lease('30 s') then '-infinity'
                else dog.grace_until end
    from ferryman.watchdog as dog
$$;

comment on function ferryman.grace_ends() is 'When the grace after an outage ends or ended; never further ahead than one lease.';

-- What should have been acted on before this is late. After an outage nothing is late before the grace period and one sweep
-- are over. Grace is wall time.
create or replace function ferryman.late_before() returns timestamptz
language sql stable as $$
    select case when ferryman.grace_ends() < clock_timestamp() - ferryman.slack()
                then ferryman.clock() - ferryman.slack()
                else '-infinity' end
$$;

-- Why a task waits for a time, who runs it, how it ended.
create or replace function ferryman.reasons_tasks(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
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
           greatest(task.leased_until, ferryman.grace_ends()), jsonb_build_object('seen_until', worker.seen_until)
    from clock, task
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

-- Who holds something that was claimed, and whether that one is still heard of.
create or replace function ferryman.held(owner uuid, since timestamptz, leased_until timestamptz, then_what text)
returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select 'leased',
           format('%s holds it%s; the lease ends at %s unless it is renewed.',
                  coalesce(format('Worker %s (pid %s)', worker.host, worker.pid), 'A worker that has gone'),
                  ' since ' || ferryman.spelled(held.since), ferryman.spelled(held.leased_until)),
           held.leased_until, jsonb_build_object('lease_owner', held.owner, 'host', worker.host, 'pid', worker.pid)
    from (select) as asked
    left join ferryman.workers as worker on worker.boot_id = held.owner
    where held.owner is not null
    union all
    select 'holder_silent',
           case when worker.boot_id is null then 'Its worker is gone.'
                else format('Its worker has not been heard of since %s.', ferryman.spelled(worker.seen_until)) end || held.then_what,
           greatest(held.leased_until, ferryman.grace_ends()), jsonb_build_object('seen_until', worker.seen_until)
    from (select) as asked
    left join ferryman.workers as worker on worker.boot_id = held.owner
    where held.owner is not null and coalesce(worker.seen_until < ferryman.clock(), true)
$$;

-- Whether somebody watches: without that nothing that hangs is ended. What reaps waits out the time after an outage.
-- A tick that lies ahead is of a clock that was set back, and nobody has ticked since.
create or replace function ferryman.reasons_watchdog(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select 'watchdog_silent',
           format('No watchdog has ticked since %s: nobody ends what hangs.',
                  case when dog.ticked_at > clock_timestamp() then 'the clock was set back' else ferryman.spelled(dog.ticked_at) end),
           null::timestamptz, jsonb_build_object('ticked_at', dog.ticked_at)
    from ferryman.watchdog as dog
    where (dog.ticked_at < clock_timestamp() - ferryman.slack() or dog.ticked_at > clock_timestamp() + ferryman.slack())
      and exists (select from ferryman.bounds as bound where bound.id = reasons_watchdog.id)
    union all
    select 'grace', format('After an outage no lease is judged before %s.', ferryman.spelled(grace.ends)), grace.ends, '{}'
    from (select ferryman.grace_ends() as ends) as grace
    where grace.ends > clock_timestamp()
      and exists (select from ferryman.bounds as bound
                  where bound.id = reasons_watchdog.id and bound.rule in ('W13', 'W1', 'W6', 'W7', 'W15'))
$$;
