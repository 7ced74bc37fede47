-- running -> succeeded | failed | ready, then ready -> running
-- One turn of a lane: settle the set that has just run and claim the next, in one round trip and one commit.
-- Both sides read by primary key or by the one index made for them; the lanes (queue, tenant, room) are chosen by the pump.
-- A lane that is not open (it has limits, or is paused) is passed over: its tasks come through a gate (queues/claim.sql).
-- A lane that has a task to begin behind is looked into from that one's place on (work/places.py): what is dead in front of it
-- need not be walked over. One that waits again has no place there any more: its time has been moved.
-- The planner knows neither the length of `(select :ids)` nor the limit `(select …)`: it takes the set for one row, to be
-- looked up by its key, whatever the statistics say, also in a plan made while the table was empty. Two sets taken for one row
-- each would be joined by comparing each with each: what is wanted of a set is carried along, or asked for with `in`, which hashes.
-- Tasks are locked in the order of their ids, as everybody does. A row that somebody else is writing at this moment is
-- passed over and named as busy: it must not hold up the rest of the set.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.id, given.epoch, 'succeeded' as state, given.result, 0 as used, 0::float8 as delay, null as code, null as reason
    from unnest((select :won_ids::uuid[]), (select :won_epochs::bigint[]), (select :won_results::text[]))
        as given (id, epoch, result)
    union all
    select given.id, given.epoch, given.state, null, given.used, given.delay, given.code, given.reason
    from jsonb_to_recordset(:lost::jsonb)
        as given (id uuid, epoch bigint, state text, used integer, delay float8, code text, reason text)
    limit (select 1000000)
),
held as materialized (
    -- What is handed back keeps its place in the line.
    select word.*, word.delay = 0 and word.used = 0 as stays
    from (select * from word limit (select 1000000)) as word
    join ferryman.tasks as task using (id)
    where task.epoch = word.epoch
      and task.lease_owner = :owner
    order by task.id
    for update of task skip locked
),
settled as (
    update ferryman.tasks as task
    set state = word.state, updated_at = clock.now, lease_owner = null, leased_until = null,
        result = word.result::jsonb,
        attempt = task.attempt + word.used,
        due_at = case when word.state <> 'ready' or word.stays then task.due_at
                      else clock.now + make_interval(secs => word.delay) end,
        rank = case when word.state = 'ready' and word.delay = 0
                    then case when word.stays then task.due_at else clock.now end + task.priority * interval '60 s' end,
        wake_at = case when word.state = 'ready' and word.delay > 0 then clock.now + make_interval(secs => word.delay) end,
        finished_at = case when word.state <> 'ready' then clock.now end,
        last_error_code = case when word.state = 'succeeded' then null else coalesce(word.code, task.last_error_code) end,
        last_error_reason = case when word.state = 'succeeded' then null
                                 when word.code is null then task.last_error_reason else word.reason end
    from clock, held as word
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
            from clock, (
                select given.queue, given.tenant, given.room,
                       coalesce((select behind.due_at + behind.priority * interval '60 s'
                                 from ferryman.tasks as behind
                                 where behind.id = given.behind
                                   and behind.rank is null and behind.wake_at is null), '-infinity') as since,
                       coalesce(given.behind, '00000000-0000-0000-0000-000000000000') as behind
                from unnest(:queues::text[], :tenants::text[], :rooms::integer[], :behind::uuid[])
                    as given (queue, tenant, room, behind)
                where not exists (select from ferryman.queues as agreed
                                  where agreed.name = given.queue and agreed.tenant in ('*', given.tenant) and not agreed.open)
                offset 0
            ) as lane
            cross join lateral (
                select ready.id
                from ferryman.tasks as ready
                where ready.queue = lane.queue
                  and ready.tenant = lane.tenant
                  and ready.rank is not null
                  and (ready.rank, ready.id) >= (lane.since, lane.behind)
                  and ready.limit_key is null
                  and ready.name = any(:names::text[])
                  and ready.ends_at > clock.now
                  and (ready.callback is null or ready.callback = any(:kinds::text[]))
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
    select clock.now, settled.id, settled.attempt, settled.tenant, 'task', 'running', settled.state, settled.task_id,
           settled.code, settled.reason
    from settled, clock
    union all
    select clock.now, claimed.id, claimed.attempt, claimed.tenant, 'task', 'ready', 'running', claimed.task_id, null, null
    from claimed, clock
)
select id, epoch, tenant, task_id, queue, name, attempt, max_retries, timeout_ms, callback, callback_ref,
       traceparent, backoff, payload
from claimed
union all
-- Last, one row about what was settled: how many and, of the others, which were stale (under task_id) and which busy (queue).
select null, tally.settled, null, unsettled.stale, unsettled.busy, null, null, null, null, null, null, null, null, null
from (select count(*) as settled from settled) as tally
left join lateral (
    select string_agg(word.id::text, ',') filter (where mine.id is null) as stale,
           string_agg(word.id::text, ',') filter (where mine.id is not null) as busy
    from (select id, epoch from word limit (select 1000000)) as word
    left join ferryman.tasks as mine
      on mine.id = word.id and mine.epoch = word.epoch and mine.lease_owner = :owner and mine.state = 'running'
     and mine.callback is null
    where tally.settled < :sent::bigint
      and word.id not in (select settled.id from settled)
) as unsettled on true
