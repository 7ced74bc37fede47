-- running -> succeeded | failed | ready
-- The same move as in a turn, for a set that owes something to the owners of its callbacks, and for the watchdog: inside a
-- transaction that has locked the parents first. Locks, busy rows and limits are those of a turn (see turn.sql).
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:outcomes::jsonb) as given (
            id uuid, epoch bigint, owner uuid, state text, result text, code text, reason text, used integer, delay float8)
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
held as materialized (
    -- What nobody has tried, or whose holder is gone, keeps its place in the line.
    select word.*, word.delay = 0 and (word.used = 0 or :lapsed::boolean) as stays
    from word
    join ferryman.tasks as task using (id)
    where task.epoch = word.epoch
      and task.lease_owner = word.owner
    order by task.id
    for update of task skip locked
),
moved as (
    update ferryman.tasks as task
    set state = word.state, updated_at = clock.now, lease_owner = null, leased_until = null,
        attempt = task.attempt + word.used,
        result = word.result::jsonb,
        due_at = case when word.state <> 'ready' or word.stays then task.due_at
                      else clock.now + make_interval(secs => word.delay) end,
        rank = case when word.state = 'ready' and word.delay = 0
                    then case when word.stays then task.due_at else clock.now end + task.priority * interval '60 s' end,
        wake_at = case when word.state = 'ready' and word.delay > 0 then clock.now + make_interval(secs => word.delay) end,
        finished_at = case when word.state <> 'ready' then clock.now end,
        last_error_code = case when word.state = 'succeeded' then null else coalesce(word.code, task.last_error_code) end,
        last_error_reason = case when word.state = 'succeeded' then null
                                 when word.code is null then task.last_error_reason else word.reason end
    from clock, held as word
    where task.id = word.id
      and task.state = 'running'
      and task.epoch = word.epoch
      and task.lease_owner = word.owner
      and (not :lapsed::boolean or task.leased_until <= clock.now)
    returning task.id, task.tenant, task.task_id, task.name, task.state, task.attempt - word.used as attempt,
              word.code, word.reason, word.result, task.callback, task.callback_ref, task.queue, word.owner
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name, reason_code, reason_message)
    select clock.now, moved.id, moved.attempt, moved.tenant, 'task', 'running', moved.state, moved.task_id, moved.code, moved.reason
    from moved, clock
)
select id, tenant, task_id, name, state, attempt, code, reason, result, callback, callback_ref, queue, owner
from moved
union all
-- Those that are still the sender's, but were being written by somebody else: their state is null.
select word.id, null, null, null, null, null, null, null, null, null, null, null, null
from word
join ferryman.tasks as task using (id)
where task.state = 'running'
  and task.epoch = word.epoch
  and task.lease_owner = word.owner
  and word.id not in (select held.id from held)
