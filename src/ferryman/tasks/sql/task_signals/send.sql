-- An event for one task: kept, and a task that is parked for it is woken in the same statement. One that runs is roused: it may
-- be on its way to park. In a transaction that has locked the task, so that what is read here is current.
with clock as materialized (
    select ferryman.clock() as now
),
kept as (
    insert into ferryman.task_signals (task, at, name, payload)
    select :id, clock.now, :name, :payload::text::jsonb
    from clock
    returning id
),
roused as (
    update ferryman.tasks as task
    set roused = true
    where task.id = :id
      and task.state = 'running'
),
woken as (
    update ferryman.tasks as task
    set rank = clock.now + task.priority * interval '60 s', due_at = clock.now, wake_at = null, updated_at = clock.now
    from clock, ferryman.task_waits as wait
    where task.id = :id
      and task.state = 'ready'
      and task.wake_at is not null
      and wait.task = task.id
      and wait.epoch = task.epoch
      and :name = any(wait.names)
    returning task.queue || chr(31) || task.tenant || case when task.limit_key is null then '' else chr(31) end as lane
)
select kept.id, (select woken.lane from woken) as lane
from kept
