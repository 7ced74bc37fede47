-- A sleep or a wait for an event, asked for the first time or again: is it over? Fenced like a step.
-- An event that came in time is taken, by this wait alone; a wait whose time is over without one has failed, for good. One that
-- would last longer than the task is not written. A task stands in a set once: two waits of one name must not take one event.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.*
    from unnest(
        (select :tasks::uuid[]), (select :epochs::bigint[]), (select :kinds::text[]), (select :names::text[]),
        (select :nths::integer[]), (select :positions::integer[]), (select :seconds::float8[]), (select :untils::timestamptz[])
    ) as given (task, epoch, kind, name, nth, position, seconds, until)
    limit (select 1000000)
),
held as materialized (
    select word.*, task.ends_at
    from word
    join ferryman.tasks as task on task.id = word.task
    where task.epoch = word.epoch
      and task.lease_owner = :owner
      and task.state = 'running'
    order by task.id
    for share of task skip locked
),
asked as materialized (
    select held.task, held.kind, held.name, held.nth, held.position, held.ends_at, step.state,
           coalesce(step.until, held.until, clock.now + make_interval(secs => held.seconds), held.ends_at) as until
    from clock, held
    left join ferryman.task_steps as step
      on step.task = held.task and step.kind = held.kind and step.name = held.name and step.nth = held.nth
),
taken as (
    delete from ferryman.task_signals as signal
    where signal.id = any(array(
        select first.id
        from asked
        cross join lateral (
            select sent.id
            from ferryman.task_signals as sent
            where sent.task = asked.task
              and sent.name = asked.name
              and sent.at <= asked.until
            order by sent.id
            limit 1
        ) as first
        where asked.kind = 'event'
          and coalesce(asked.state, 'open') = 'open'
          and asked.until <= asked.ends_at
    ))
    returning signal.task, signal.payload
),
written as (
    insert into ferryman.task_steps (task, kind, name, nth, position, until, at, state, result)
    select asked.task, asked.kind, asked.name, asked.nth, asked.position, asked.until, clock.now,
           case when taken.task is not null then 'done'
                when asked.until > clock.now then 'open'
                when asked.kind = 'sleep' then 'done' else 'failed' end,
           taken.payload
    from clock, asked
    left join taken on taken.task = asked.task
    where asked.until <= asked.ends_at
    on conflict (task, kind, name, nth) do update
    set state = excluded.state, result = excluded.result, at = excluded.at
    where task_steps.state = 'open'
    returning task, state, result
)
select asked.task, asked.until, asked.ends_at, coalesce(written.state, asked.state) as state, written.result
from asked
left join written on written.task = asked.task
