-- pending -> ready
-- What has come due enters the order of claiming: born for later, or backing off (that one is ready already, and moving to
-- the same state is no move). Bounded; the answer says when to look again.
with clock as materialized (
    select ferryman.clock() as now
),
due as materialized (
    select task.id, task.state
    from ferryman.tasks as task
    -- Not joined: the planner would keep the order of the index, read all of it, and look at each row's time.
    where task.wake_at <= (select now from clock)
    order by task.wake_at
    limit :limit
    for update of task skip locked
),
promoted as (
    update ferryman.tasks as task
    set state = 'ready', rank = task.due_at + task.priority * interval '60 s', wake_at = null, updated_at = clock.now
    from clock
    where task.id = any(array(select due.id from due where due.state = 'pending'))
      and task.state = 'pending'
    returning task.id, task.tenant, task.task_id, task.queue, task.limit_key, task.attempt
),
woken as (
    update ferryman.tasks as task
    set rank = task.due_at + task.priority * interval '60 s', wake_at = null, updated_at = clock.now
    from clock
    where task.id = any(array(select due.id from due where due.state = 'ready'))
      and task.state = 'ready'
    returning task.tenant, task.queue, task.limit_key
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name)
    select clock.now, promoted.id, promoted.attempt, promoted.tenant, 'task', 'pending', 'ready', promoted.task_id
    from promoted, clock
)
select (select count(*) from due) as count,
       array(select distinct queue || chr(31) || tenant || case when limit_key is null then '' else chr(31) end from (
           select queue, tenant, limit_key from promoted union all select queue, tenant, limit_key from woken) as lane) as lanes,
       -- Not above 0 when a schedule is due: no task is, after this. `least` passes over what is null. Those that cannot be fired
       -- here for now stay due: they would hide when the next is.
       least(
           (select extract(epoch from task.wake_at - clock.now)::float8
            from ferryman.tasks as task
            where task.wake_at > clock.now
            order by task.wake_at
            limit 1),
           (select extract(epoch from schedule.next_run_at - clock.now)::float8
            from ferryman.schedules as schedule
            where schedule.next_run_at is not null
              and schedule.id <> all(:aside::uuid[])
            order by schedule.next_run_at
            limit 1)) as next_seconds
from clock
