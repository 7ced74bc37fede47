-- T19, T20: places for the walks over what is parked and over what ended tasks and schedules leave behind.
insert into ferryman.retention (domain) values ('stuck'), ('wait'), ('signal'), ('schedule');

-- The calls that a parked task waits for; none if it backs off. Told by its rows, because days of the log are dropped: what it
-- waits for beside a time holds for its last claim, and one that waits for a time alone wakes at the end of a sleep.
create or replace function ferryman.parked(id uuid) returns setof ferryman.task_steps
language sql stable as $$
    select step.*
    from ferryman.tasks as task
    join ferryman.task_steps as step on step.task = task.id and step.state = 'open'
    where task.id = parked.id and task.state = 'ready' and task.wake_at is not null
      and (exists (select from ferryman.task_waits as wait where wait.task = task.id and wait.epoch = task.epoch)
           or exists (select from ferryman.task_steps as sleep
                      where sleep.task = task.id and sleep.kind = 'sleep' and sleep.state = 'open' and sleep.until = task.wake_at))
$$;

-- The limits that a task which could be claimed stands before: whose slots they are, how many there are, how many are held, and
-- how many of those by other tenants.
create function ferryman.full_limits(id uuid) returns table (whose text, slots bigint, held bigint, others bigint)
language sql stable as $$
    with task as materialized (
        select each.* from ferryman.tasks as each where each.id = full_limits.id and each.rank is not null
    ),
    agreed as materialized (
        select queue.* from task join ferryman.queues as queue on queue.name = task.queue and queue.tenant in ('*', task.tenant)
    ),
    room as materialized (
        select case agreed.tenant when '*' then '' else 'tenant in its ' end as whose, agreed.tenant, null as limit_key,
               agreed.concurrency as slots
        from agreed
        where agreed.concurrency is not null
        union all
        select format('key %s in its ', task.limit_key), task.tenant, task.limit_key,
               coalesce((select own.key_concurrency from agreed as own where own.tenant <> '*'),
                        (select whole.key_concurrency from agreed as whole where whole.tenant = '*'), 1)
        from task
        where task.limit_key is not null
    )
    select room.whose || 'queue ' || task.queue, room.slots, used.held, used.others
    from task, room
    cross join lateral (
        select count(*) as held, count(*) filter (where holder.tenant <> task.tenant) as others
        from ferryman.tasks as holder
        where holder.queue = task.queue and (room.tenant = '*' or holder.tenant = room.tenant)
          and (room.limit_key is null or holder.limit_key = room.limit_key)
          and holder.slot and holder.leased_until is not null
    ) as used
    where used.held >= room.slots
    order by room.limit_key is null, room.tenant = '*'
$$;

create or replace function ferryman.explained_tasks(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'task', 'id', task.id, 'task_id', coalesce(task.task_id, task.id::text), 'tenant', task.tenant, 'name', task.name,
        'queue', task.queue, 'state', task.state, 'attempt', task.attempt, 'max_attempts', 1 + task.max_retries,
        'doing', case
            when task.finished_at is not null then 'It has ended.'
            when task.leased_until is not null then format('It runs, attempt %s of %s.', task.attempt, 1 + task.max_retries)
            when task.wake_at is not null then 'It waits for a time.'
            else coalesce(
                (select format('It waits for a slot of its %s: %s of %s %s held%s.', full_limit.whose, full_limit.held, full_limit.slots,
                               case full_limit.held when 1 then 'is' else 'are' end,
                               case when full_limit.others > 0 then format(', %s of them by other tenants', full_limit.others) end)
                 from ferryman.full_limits(task.id) as full_limit
                 limit 1),
                'It waits for a worker.') end)
    from ferryman.tasks as task
    where task.id = explained_tasks.id
$$;
