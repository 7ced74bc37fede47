-- running -> succeeded | failed | ready, then ready -> running
-- One turn of a lane: settle the set that has just run and claim the next, in one round trip and one commit.
-- Both sides read by primary key or by the one index made for them; the lanes (queue, tenant, room) are chosen by the pump.
-- The planner knows neither the length of `(select :ids)` nor the limit `(select …)`: it takes the set for one row, to be
-- looked up by its key, whatever the statistics say, also in a plan made while the table was empty. The holder sends its sets
-- ordered by id, the order in which everybody locks tasks.
with clock as materialized (
    select ferryman.clock() as now
),
won as (
    update ferryman.tasks as task
    set state = 'succeeded', result = word.result::jsonb, finished_at = clock.now, updated_at = clock.now,
        lease_owner = null, leased_until = null, last_error_code = null, last_error_reason = null
    from clock, (
        select given.id, given.epoch, given.result
        from unnest((select :won_ids::uuid[]), (select :won_epochs::bigint[]), (select :won_results::text[]))
            as given (id, epoch, result)
        limit (select 1000000)
    ) as word
    where task.id = word.id
      and task.state = 'running'
      and task.epoch = word.epoch
      and task.lease_owner = :owner
      and task.callback is null
    returning task.id, task.tenant, task.task_id, task.attempt
),
lost as (
    update ferryman.tasks as task
    set state = word.state, updated_at = clock.now, lease_owner = null, leased_until = null,
        attempt = task.attempt + word.used,
        due_at = case when word.state = 'ready' then clock.now + make_interval(secs => word.delay) else task.due_at end,
        rank = case when word.state = 'ready' and word.delay = 0 then clock.now + task.priority * interval '60 s' end,
        wake_at = case when word.state = 'ready' and word.delay > 0 then clock.now + make_interval(secs => word.delay) end,
        finished_at = case when word.state = 'failed' then clock.now end,
        last_error_code = coalesce(word.code, task.last_error_code),
        last_error_reason = case when word.code is null then task.last_error_reason else word.reason end
    from clock, (
        select said.*
        from (
            select given.*
            from jsonb_to_recordset(:lost::jsonb)
                as given (id uuid, epoch bigint, state text, used integer, delay float8, code text, reason text)
            limit (select 1000000) -- of the hundred that the planner takes it for
        ) as said
        limit (select 1000000)
    ) as word
    where task.id = word.id
      and task.state = 'running'
      and task.epoch = word.epoch
      and task.lease_owner = :owner
      and task.callback is null
    returning task.id, task.tenant, task.task_id, task.attempt - word.used as attempt, task.state, word.code, word.reason
),
claimed as (
    update ferryman.tasks as task
    set state = 'running', epoch = task.epoch + 1, lease_count = task.lease_count + 1, lease_owner = :owner,
        leased_until = least(clock.now + :lease::interval,
                             clock.now + task.timeout_ms * interval '1 ms' + :margin::interval),
        started_at = clock.now, updated_at = clock.now, rank = null
    from clock, (
        select id, 'ready' as state
        from unnest(array(
            select pick.id
            from clock, unnest(:queues::text[], :tenants::text[], :rooms::integer[]) as lane (queue, tenant, room)
            cross join lateral (
                select ready.id
                from ferryman.tasks as ready
                where ready.queue = lane.queue
                  and ready.tenant = lane.tenant
                  and ready.rank is not null
                  and ready.name = any(:names::text[])
                  and ready.ends_at > clock.now
                order by ready.rank, ready.id
                limit lane.room
                for update skip locked
            ) as pick
        )) as picked (id)
        limit (select 1000000)
    ) as picked
    where task.id = picked.id
      and task.state = picked.state
    returning task.id, task.epoch, task.tenant, task.task_id, task.queue, task.name, task.attempt, task.max_retries,
              task.timeout_ms, task.callback, task.callback_ref, task.traceparent, task.backoff, task.payload
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name, reason_code, reason_message)
    select clock.now, won.id, won.attempt, won.tenant, 'task', 'running', 'succeeded', won.task_id, null, null
    from won, clock
    union all
    select clock.now, lost.id, lost.attempt, lost.tenant, 'task', 'running', lost.state, lost.task_id, lost.code, lost.reason
    from lost, clock
    union all
    select clock.now, claimed.id, claimed.attempt, claimed.tenant, 'task', 'ready', 'running', claimed.task_id, null, null
    from claimed, clock
)
select id, epoch, tenant, task_id, queue, name, attempt, max_retries, timeout_ms, callback, callback_ref,
       traceparent, backoff, payload
from claimed
union all
-- Last, one row about what was settled: how many and, when some were stale, which.
select null, tally.settled, null, case when tally.settled < :sent::bigint then (
           select string_agg(word.id::text, ',')
           from (select unnest(:won_ids::uuid[]) as id
                 union all
                 select id from jsonb_to_recordset(:lost::jsonb) as given (id uuid)) as word
           where not exists (select from won where won.id = word.id)
             and not exists (select from lost where lost.id = word.id)) end,
       null, null, null, null, null, null, null, null, null, null
from (select (select count(*) from won) + (select count(*) from lost) as settled) as tally
