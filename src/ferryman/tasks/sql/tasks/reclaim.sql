-- running -> ready
-- After an answer that never came, a worker may own tasks it does not know of: it hands them back instead of letting their
-- leases run out. No attempt is used: no handler ever saw them.
with clock as materialized (
    select ferryman.clock() as now
),
moved as (
    update ferryman.tasks as task
    set state = 'ready', rank = clock.now + task.priority * interval '60 s', lease_owner = null, leased_until = null,
        updated_at = clock.now
    from clock
    where task.id = any(array(
        select mine.id
        from ferryman.tasks as mine
        where mine.leased_until is not null
          and mine.lease_owner = :owner
          and mine.id <> all(:held::uuid[])
        order by mine.id
        for update))
      and task.state = 'running'
      and task.lease_owner = :owner
    returning task.id, task.tenant, task.task_id, task.attempt
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name, reason_message)
    select clock.now, moved.id, moved.attempt, moved.tenant, 'task', 'running', 'ready', moved.task_id, 'handed back'
    from moved, clock
)
select id
from moved
