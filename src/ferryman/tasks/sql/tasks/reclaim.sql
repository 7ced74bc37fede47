-- running -> ready
-- After an answer that never came, a worker may own tasks it does not know of: it hands them back instead of letting their
-- leases run out. No attempt is used, and no place in the line lost: no handler ever saw them. A row that somebody is writing
-- is passed over and counted.
with clock as materialized (
    select ferryman.clock() as now
),
unknown as materialized (
    select mine.id
    from ferryman.tasks as mine
    where mine.leased_until is not null
      and mine.lease_owner = :owner
      and mine.id <> all(:held::uuid[])
),
free as materialized (
    select task.id
    from ferryman.tasks as task
    where task.id = any(array(select unknown.id from unknown))
      and task.lease_owner = :owner
    order by task.id
    for update of task skip locked
),
moved as (
    update ferryman.tasks as task
    set state = 'ready', rank = task.due_at + task.priority * interval '60 s', lease_owner = null, leased_until = null,
        updated_at = clock.now
    from clock
    where task.id = any(array(select free.id from free))
      and task.state = 'running'
    returning task.id, task.tenant, task.task_id, task.attempt
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name, reason_message)
    select clock.now, moved.id, moved.attempt, moved.tenant, 'task', 'running', 'ready', moved.task_id, 'handed back'
    from moved, clock
)
select (select count(*) from moved) as moved, (select count(*) from unknown) - (select count(*) from free) as busy
