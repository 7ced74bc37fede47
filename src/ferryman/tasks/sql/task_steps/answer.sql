-- Children have ended: what they came to is told to the calls that wait for it, and the parents whose join is over are woken, once.
-- In the transaction of the ends; the parents have been locked by an earlier statement of it, so that what is read here is
-- current. A parent that runs is roused instead: it may be on its way to park.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.*
    from unnest((select :children::uuid[]), (select :states::text[]), (select :results::text[])) as given (child, state, result)
    limit (select 1000000)
),
told as (
    update ferryman.task_steps as step
    set state = word.state, result = word.result::jsonb, at = clock.now
    from clock, word
    where step.child = word.child
      and step.state = 'open'
    returning step.task, step.child
),
joined as materialized (
    select wait.task, wait.open - count(*) as open
    from told
    join ferryman.task_waits as wait on wait.task = told.task
    join ferryman.tasks as parent on parent.id = wait.task
    where told.child = any(wait.children)
      and parent.epoch = wait.epoch
      and parent.state = 'ready'
      and parent.wake_at is not null
    group by wait.task, wait.open
),
counted as (
    update ferryman.task_waits as wait
    set open = greatest(joined.open, 0)
    from joined
    where wait.task = joined.task
),
roused as (
    update ferryman.tasks as parent
    set roused = true
    where parent.id = any(array(select told.task from told))
      and parent.state = 'running'
      and parent.roused is null
),
woken as (
    update ferryman.tasks as parent
    set rank = clock.now + parent.priority * interval '60 s', due_at = clock.now, wake_at = null, updated_at = clock.now
    from clock
    where parent.id = any(array(select joined.task from joined where joined.open <= 0))
      and parent.state = 'ready'
      and parent.wake_at is not null
    returning parent.queue, parent.tenant, parent.limit_key
)
select distinct woken.queue || chr(31) || woken.tenant || case when woken.limit_key is null then '' else chr(31) end as lane
from woken
