-- A remote worker serves one tenant: it is no worker for the work of the others, and none for what is no task.
-- Whether anybody would take a task that waits, and how many stand before it.
create or replace function ferryman.reasons_tasks_workers(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
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
          and coalesce(worker.tenant, task.tenant) = task.tenant
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

-- The living workers that do more than tasks, and which of them say that they know something: a profile, a target, a source, a kind
-- of callback. A worker of a release that does not tell may know it.
create or replace function ferryman.living(topic text, name text) returns table (boot_id uuid, knows boolean)
language sql stable as $$
    select worker.boot_id, living.name is null or coalesce(worker.settings -> living.topic ? living.name, true)
    from ferryman.workers as worker
    where worker.seen_until >= ferryman.clock()
      and worker.tenant is null
$$;

create or replace function ferryman.reasons_commands(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select 'waiting_for_mapping',
           format('Its mapping is the task %s (%s), which is %s.', part.id, part.name, part.state), part.ends_at,
           jsonb_build_object('task', part.id, 'state', part.state)
    from ferryman.command_inbox as command
    join ferryman.tasks as part on part.id = command.task
    where command.id = reasons_commands.id and command.status = 'RECEIVED'
    union all
    (select 'waiting_for_async_task',
           case when task.task is null then format('%s waits for a result from outside.', task.task_type)
                else format('%s is under way as the task %s, which is %s.', task.task_type, task.task, coalesce(part.state, 'gone')) end,
           task.deadline_at, jsonb_build_object('async_task', task.id, 'task', task.task, 'state', part.state)
    from ferryman.async_tasks as task
    left join ferryman.tasks as part on part.id = task.task
    where (task.triggered_by_command_id = reasons_commands.id or task.id = reasons_commands.id) and task.completed_at is null
    order by task.id
    limit 20)
    union all
    (select 'waiting_for_follow_up',
           format('What follows %s is the task %s (%s), which is %s.', task.task_type, part.id, part.name, part.state), part.ends_at,
           jsonb_build_object('async_task', task.id, 'task', part.id, 'state', part.state)
    from ferryman.async_tasks as task
    join ferryman.tasks as part on part.id = task.follow_up
    where task.triggered_by_command_id = reasons_commands.id and part.finished_at is null
    order by task.id
    limit 20)
    union all
    select 'nobody_knows_it', format('No living worker knows %s in the queue %s.', part.name, part.queue), null::timestamptz,
           jsonb_build_object('name', part.name, 'queue', part.queue)
    from (
        select command.task as id from ferryman.command_inbox as command
        where command.id = reasons_commands.id and command.status = 'RECEIVED'
        union all
        select task.task from ferryman.async_tasks as task
        where (task.triggered_by_command_id = reasons_commands.id or task.id = reasons_commands.id) and task.completed_at is null
    ) as owed
    join ferryman.tasks as part on part.id = owed.id
    where part.rank is not null
      and not exists (select from ferryman.workers as worker
                      where worker.seen_until >= ferryman.clock() and coalesce(worker.tenant, part.tenant) = part.tenant
                        and part.queue = any(worker.queues) and part.name = any(worker.handlers))
$$;
