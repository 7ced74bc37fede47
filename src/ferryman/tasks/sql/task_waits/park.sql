-- running -> ready
-- The handler waits and holds nobody: no attempt is used, and the task wakes at a time, by an event or by the ends of its
-- children. If something came while it ran, it does not wait but looks again. Locks and busy rows are those of a turn.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:parks::jsonb) as given (
            id uuid, epoch bigint, owner uuid, wake_at timestamptz, open integer, children uuid[], names text[])
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
held as materialized (
    select word.*
    from word
    join ferryman.tasks as task using (id)
    where task.epoch = word.epoch
      and task.lease_owner = word.owner
    order by task.id
    for update of task skip locked
),
moved as (
    update ferryman.tasks as task
    set state = 'ready', updated_at = clock.now, lease_owner = null, leased_until = null, roused = null,
        due_at = case when task.roused then clock.now else least(word.wake_at, task.ends_at) end,
        rank = case when task.roused then clock.now + task.priority * interval '60 s' end,
        wake_at = case when task.roused then null else least(word.wake_at, task.ends_at) end
    from clock, held as word
    where task.id = word.id
      and task.state = 'running'
      and task.epoch = word.epoch
      and task.lease_owner = word.owner
    returning task.id, task.tenant, task.task_id, task.attempt, task.epoch, task.queue, task.limit_key, task.wake_at, word.open,
              word.children, word.names
),
waiting as (
    insert into ferryman.task_waits (task, epoch, open, children, names)
    select moved.id, moved.epoch, moved.open, moved.children, moved.names
    from moved
    where moved.open is not null
       or moved.names <> '{}'
    on conflict (task) do update
    set epoch = excluded.epoch, open = excluded.open, children = excluded.children, names = excluded.names
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name, reason_message, data)
    select clock.now, moved.id, moved.attempt, moved.tenant, 'task', 'running', 'ready', moved.task_id, 'parked',
           jsonb_build_object('parked', jsonb_build_object(
               'until', moved.wake_at, 'events', moved.names, 'children', moved.open))
    from moved, clock
)
select moved.id, moved.queue || chr(31) || moved.tenant || case when moved.limit_key is null then '' else chr(31) end as lane,
       moved.wake_at is null as roused, true as moved
from moved
union all
select word.id, null, false, false
from word
join ferryman.tasks as task using (id)
where task.state = 'running'
  and task.epoch = word.epoch
  and task.lease_owner = word.owner
  and word.id not in (select held.id from held)
