-- PENDING -> RUNNING, and what a running capability tells of itself: its try, its worker, how far it is (C6, C8).
-- Fenced by the claim that speaks. A row that somebody else is writing is passed over: it is ending, or will be told again.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select async.id, async.status, given.percent, task.attempt, task.lease_owner
    from unnest((select :tasks::uuid[]), (select :epochs::bigint[]), (select :ids::uuid[]), (select :percents::float8[]))
        as given (task, epoch, id, percent)
    cross join lateral (select each.* from ferryman.tasks as each where each.id = given.task offset 0) as task
    cross join lateral (
        select each.id, each.status
        from ferryman.async_tasks as each
        where each.id = given.id
          and each.task = task.id
          and each.status in ('PENDING', 'RUNNING')
        for update skip locked
    ) as async
    where task.epoch = given.epoch
      and task.state = 'running'
),
started as (
    update ferryman.async_tasks as async
    set status = 'RUNNING', started_at = clock.now, updated_at = clock.now, execution_node = word.lease_owner::text,
        retry_count = least(word.attempt - 1, async.max_retries), progress = coalesce(word.percent, async.progress)
    from clock, word
    where async.id = word.id
      and word.status = 'PENDING'
    returning async.id, async.tenant, async.task_type
),
spoke as (
    update ferryman.async_tasks as async
    set updated_at = clock.now, execution_node = word.lease_owner::text,
        retry_count = least(word.attempt - 1, async.max_retries), progress = coalesce(word.percent, async.progress)
    from clock, word
    where async.id = word.id
      and word.status = 'RUNNING'
    returning async.id
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name)
    select clock.now, started.id, started.tenant, 'async_task', 'PENDING', 'RUNNING', started.task_type
    from started, clock
)
select id from started
union all
select id from spoke
