-- active, with a later next_run_at; active -> ended when it was the last time
-- Tasks are born, the schedule goes on, both are told: one statement. What another has fired or moved since it was read is
-- passed over (next_run_at is the fence). By hand, a paused schedule fires too, and its next time stays as it is. A firing
-- whose key another task holds makes none; by key, so that of two sets one waits for the other's first and then for no more.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.id, given.was, given.next, given.missed, given.skipped, given.reasons
    from unnest(:ids::uuid[], :was::timestamptz[], :nexts::timestamptz[], :missed::integer[], :skipped::integer[],
                :reasons::text[]) as given (id, was, next, missed, skipped, reasons)
),
held as materialized (
    select schedule.id, schedule.tenant, schedule.queue, schedule.name, schedule.payload, schedule.priority,
           schedule.timeout_ms, schedule.max_retries, schedule.schedule_type, schedule.overlap, schedule.backoff,
           schedule.limit_key, schedule.singleton, schedule.debounce, schedule.quiet,
           schedule.schedule_id, schedule.state, word.next, word.missed, word.skipped, word.reasons
    from word
    join ferryman.schedules as schedule on schedule.id = word.id
    where (schedule.state = 'active' or (:by_hand::boolean and schedule.state = 'paused'))
      and (:by_hand::boolean or schedule.next_run_at = word.was)
    order by schedule.id
    for update of schedule
),
live as materialized (
    select task.id, task.schedule
    from held
    join ferryman.tasks as task on task.schedule = held.id
    where task.finished_at is null
      and held.overlap <> 'allow'
),
firing as materialized (
    select given.id, given.schedule, given.fire_time
    from unnest(:tasks::uuid[], :schedules::uuid[], :times::timestamptz[]) as given (id, schedule, fire_time)
),
born as (
    insert into ferryman.tasks (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, scheduled_at, backoff, schedule,
        fire_time, limit_key, singleton, debounce, due_at, ends_at, state, rank, wake_at, created_at, updated_at
    )
    select firing.id, held.tenant, held.queue, held.name, held.payload, held.priority, held.timeout_ms, held.max_retries,
        held.schedule_type, firing.fire_time, held.backoff, held.id, firing.fire_time, held.limit_key, held.singleton,
        held.debounce, coalesce(clock.now + held.quiet, firing.fire_time),
        clock.now + coalesce(held.quiet, '0') + :ends_after::interval,
        case when held.quiet is null then 'ready' else 'pending' end,
        case when held.quiet is null then clock.now + held.priority * interval '60 s' end,
        clock.now + held.quiet, clock.now, clock.now
    from firing
    join held on held.id = firing.schedule
    cross join clock
    where held.overlap <> 'skip'
       or not exists (select from live where live.schedule = held.id)
    order by held.singleton, held.debounce, firing.fire_time
    on conflict do nothing
    returning id, tenant, schedule, fire_time, state
),
tally as materialized (
    select held.id, held.state, held.next, held.missed, count(born.id) as fired, max(born.fire_time) as latest,
           held.skipped + (select count(*) from firing where firing.schedule = held.id) - count(born.id) as skipped,
           jsonb_agg(born.fire_time order by born.fire_time) filter (where born.id is not null) as fire_times
    from held
    left join born on born.schedule = held.id
    group by held.id, held.state, held.next, held.missed, held.skipped
),
advanced as (
    update ferryman.schedules as schedule
    set next_run_at = case when :by_hand::boolean then schedule.next_run_at else tally.next end,
        last_run_at = greatest(schedule.last_run_at, tally.latest), updated_at = clock.now,
        fired = schedule.fired + tally.fired, missed = schedule.missed + tally.missed,
        skipped = schedule.skipped + tally.skipped
    from tally, clock
    where schedule.id = tally.id
      and (:by_hand::boolean or tally.next is not null)
),
run_out as (
    update ferryman.schedules as schedule
    set state = 'ended', ended_at = clock.now, next_run_at = null,
        last_run_at = greatest(schedule.last_run_at, tally.latest), updated_at = clock.now,
        fired = schedule.fired + tally.fired, missed = schedule.missed + tally.missed,
        skipped = schedule.skipped + tally.skipped
    from tally, clock
    where schedule.id = tally.id
      and not :by_hand::boolean
      and tally.next is null
    returning schedule.id
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name, reason_message, data)
    select clock.now, born.id, 1, born.tenant, 'task', null, born.state, null, null,
           jsonb_build_object('schedule', born.schedule, 'fire_time', born.fire_time)
    from born, clock
    union all
    select clock.now, held.id, null, held.tenant, 'schedule', null, null, held.schedule_id, null,
           jsonb_build_object('fire_times', coalesce(tally.fire_times, '[]'), 'missed', tally.missed, 'skipped', tally.skipped)
               || case when held.reasons is null then '{}' else jsonb_build_object('reasons', held.reasons::jsonb) end
    from held
    join tally using (id)
    cross join clock
    union all
    select clock.now, held.id, null, held.tenant, 'schedule', 'active', 'ended', held.schedule_id, 'no firing is to come', null
    from held
    join run_out using (id)
    cross join clock
)
select held.id, held.tenant, held.queue, held.name, held.limit_key, held.quiet is not null as waits,
       array(select born.id from born where born.schedule = held.id order by born.fire_time) as tasks,
       -- Nothing is cancelled for a firing of which no task was born.
       array(select live.id from live
             where live.schedule = held.id and held.overlap = 'cancel_previous'
               and exists (select from born where born.schedule = held.id)) as previous
from held
