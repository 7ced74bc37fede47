-- pending -> dispatched
-- Fair: every tenant with tasks to send has its share, in each every batch, oldest first; so a flood of one starves nobody.
-- A batch that somebody holds is passed over. One of which nothing is due takes no
-- place in the scan. Alike a task whose agent's head somebody holds, or that of its batch's parent, who may be told of its end:
-- those batches and heads are named, and a further look is told to look past them. Without `heads` none is asked for.
with recursive clock as materialized (
    select ferryman.clock() as now
),
known as materialized (
    select given.tenant, given.agent_id
    from unnest((select :busy_tenants::text[]), (select :busy_agents::text[])) as given (tenant, agent_id)
    limit (select 1000000)
),
tenants as (
    (select task.tenant
     from ferryman.pmo_batch_tasks as task
     where task.status = 'pending' and task.retryable
     order by task.tenant
     limit 1)
    union all
    select (select task.tenant
            from ferryman.pmo_batch_tasks as task
            where task.status = 'pending' and task.retryable and task.tenant > tenants.tenant
            order by task.tenant
            limit 1)
    from tenants
    where tenants.tenant is not null
),
-- Along the times at which they are due: what was put off to later is behind the end of the walk. What cannot be sent takes no
-- step of it: as many as a walk has would hide whoever stands behind them. By `not in`, which no plan makes a join of: the order
-- is that of the index, and while nothing is known to be busy no batch is read.
walked as (
    select tenants.tenant, '-infinity'::timestamptz as next_retry_at, null::uuid as batch_id, 0 as nth
    from tenants
    where tenants.tenant is not null
    union all
    select further.tenant, further.next_retry_at, further.batch_id, walked.nth + 1
    from walked
    cross join lateral (
        select task.tenant, task.next_retry_at, task.batch_id
        from ferryman.pmo_batch_tasks as task
        where task.status = 'pending' and task.retryable and task.tenant = walked.tenant
          and (task.next_retry_at, task.batch_id) > (walked.next_retry_at, walked.batch_id)
          and task.next_retry_at <= (select now from clock)
          and task.batch_id <> all(:busy_batches::uuid[])
          and (task.tenant, task.agent_id) not in (select known.tenant, known.agent_id from known)
          and (task.tenant, coalesce((select batch.parent_agent_id from ferryman.pmo_batches as batch where batch.id = task.batch_id), ''))
              not in (select known.tenant, known.agent_id from known)
        order by task.tenant, task.next_retry_at, task.batch_id
        limit 1
    ) as further
    where walked.nth < :scan
),
batches as (
    select walked.tenant, walked.batch_id, min(walked.nth) as nth
    from walked
    where walked.nth > 0
    group by walked.tenant, walked.batch_id
),
due as materialized (
    select batches.tenant, batches.batch_id, batches.nth, task.id, task.agent_id, task.place
    from clock, batches
    cross join lateral (
        select task.id, task.agent_id, task.task_index, row_number() over (order by task.task_index) as place
        from ferryman.pmo_batch_tasks as task
        where task.status = 'pending' and task.retryable
          and task.tenant = batches.tenant
          and task.batch_id = batches.batch_id
          and task.next_retry_at <= clock.now
          and not exists (select from known where known.tenant = task.tenant and known.agent_id = task.agent_id)
        order by task.task_index
        -- Twice its share is enough: what small batches leave is taken by the next pass.
        limit (select 1 + 2 * :room::integer / (1 + count(*)) from batches)
    ) as task
),
-- One task of each batch, then a second of each; of those, one batch of each tenant, then a second of each.
ranked as materialized (
    select due.tenant, due.batch_id, due.id, due.agent_id,
           row_number() over (order by due.share, due.tenant, due.id) as rank
    from (
        select due.*, row_number() over (partition by due.tenant order by due.place, due.nth) as share
        from due
    ) as due
    order by rank
    limit :room
),
held as materialized (
    select batch.id, batch.tenant, batch.parent_agent_id, batch.parent_agent_turn_id, batch.parent_step_id,
           batch.parent_channel_id, batch.recursion_depth, batch.budget_id, batch.traceparent
    from ferryman.pmo_batches as batch
    where batch.id = any(array(select ranked.batch_id from ranked))
      and batch.status = 'running'
    order by batch.id
    for update skip locked
),
wanted as materialized (
    select ranked.tenant, ranked.agent_id
    from ranked
    join held on held.id = ranked.batch_id
    where :heads::boolean
    union
    select held.tenant, held.parent_agent_id
    from held
    where :heads::boolean and held.parent_agent_id is not null
),
-- In the order of agent_state_head/lock.sql.
heads as materialized (
    select locked.*
    from (select tenant, agent_id from wanted order by tenant, agent_id limit (select 1000000)) as wanted
    cross join lateral (
        select head.tenant, head.agent_id
        from ferryman.agent_state_head as head
        where head.tenant = wanted.tenant
          and head.agent_id = wanted.agent_id
        for update skip locked
    ) as locked
),
busy as materialized (
    select there.tenant, there.agent_id
    from (select tenant, agent_id from wanted except select heads.tenant, heads.agent_id from heads) as wanted
    cross join lateral (
        select head.tenant, head.agent_id
        from ferryman.agent_state_head as head
        where head.tenant = wanted.tenant
          and head.agent_id = wanted.agent_id
        limit 1
    ) as there
),
sent as (
    update ferryman.pmo_batch_tasks as task
    set status = 'dispatched', dispatched_at = clock.now, updated_at = clock.now, attempt_count = task.attempt_count + 1,
        current_agent_turn_id = task.agent_turn_id, current_turn_epoch = null
    from clock, held
    where task.id = any(array(select ranked.id from ranked))
      and task.batch_id = held.id
      and task.status = 'pending'
      and task.retryable
      and task.next_retry_at <= clock.now
      and not exists (select from busy
                      where busy.tenant = task.tenant and busy.agent_id in (task.agent_id, held.parent_agent_id))
    returning task.id, task.batch_id, task.tenant, task.agent_id, task.agent_turn_id, task.attempt_count, task.context_box_id,
              task.output_box_id, task.task_index, held.parent_agent_id, held.parent_agent_turn_id, held.parent_step_id,
              held.parent_channel_id, held.recursion_depth, held.budget_id, held.traceparent
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, data)
    select clock.now, sent.id, sent.tenant, 'batch.task', 'pending', 'dispatched', sent.agent_id,
           jsonb_build_object('batch_id', sent.batch_id, 'agent_turn_id', sent.agent_turn_id, 'attempt', sent.attempt_count)
    from sent, clock
)
-- One row at least: how many were found, also if all of them are of batches that somebody holds, and which of those and whose
-- heads were busy.
select sent.id, sent.batch_id, sent.tenant, sent.agent_id, sent.agent_turn_id, sent.attempt_count, sent.context_box_id,
       sent.output_box_id, sent.parent_agent_id, sent.parent_agent_turn_id, sent.parent_step_id, sent.parent_channel_id,
       sent.recursion_depth, sent.budget_id, sent.traceparent, found.count as found,
       array(select busy.tenant from busy order by busy.tenant, busy.agent_id) as busy_tenants,
       array(select busy.agent_id from busy order by busy.tenant, busy.agent_id) as busy_agents,
       array(select ranked.batch_id from ranked except select held.id from held) as busy_batches
from (select count(*)::integer as count from ranked) as found
left join sent on true
order by sent.batch_id, sent.task_index
