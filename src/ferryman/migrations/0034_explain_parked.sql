-- What a parked task is doing is told by what it waits for: "for a time" is true of every parked task and says nothing.
create or replace function ferryman.explained_tasks(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'task', 'id', task.id, 'task_id', coalesce(task.task_id, task.id::text), 'tenant', task.tenant, 'name', task.name,
        'queue', task.queue, 'state', task.state, 'attempt', task.attempt, 'max_attempts', 1 + task.max_retries,
        'doing', case
            when task.finished_at is not null then 'It has ended.'
            when task.leased_until is not null then format('It runs, attempt %s of %s.', task.attempt, 1 + task.max_retries)
            when task.wake_at is not null then coalesce(
                (select case
                            when bool_or(step.kind not in ('sleep', 'event')) then 'It waits for its children.'
                            when bool_or(step.kind = 'event') then 'It waits for an event.'
                            when bool_or(step.kind = 'sleep') then 'It sleeps.' end
                 from ferryman.parked(task.id) as step),
                'It waits for a time.')
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
