-- pending | dispatched -> canceled | failed
-- What is left of batches that have ended. A child of which nothing was heard for so long was never reached (B8).
with clock as materialized (
    select ferryman.clock() as now
),
open as materialized (
    select task.id
    from (select given.id from unnest((select :batches::uuid[])) as given (id) limit (select 1000000)) as word
    cross join lateral (
        select task.id
        from ferryman.pmo_batch_tasks as task
        where task.batch_id = word.id
          and task.finished_at is null
        order by task.task_index
        limit (select 1000000)
    ) as task
),
held as materialized (
    select task.id, task.status as was,
           task.status = 'dispatched' and task.current_turn_epoch is null
           and task.dispatched_at <= clock.now - :warn_after::interval
           and message.id is null as lost
    from clock, (select id from open order by id limit (select 1000000)) as open
    join ferryman.pmo_batch_tasks as task on task.id = open.id
    left join lateral (
        select message.id from ferryman.agent_inbox as message where message.id = task.current_agent_turn_id limit 1
    ) as message on true
    where task.finished_at is null
    order by task.id
    for update of task
),
gone as (
    update ferryman.pmo_batch_tasks as task
    set status = case when held.lost then 'failed' else 'canceled' end, updated_at = clock.now, finished_at = clock.now,
        retryable = false, error_detail = case when held.lost then 'downstream_unavailable' else :reason::text end
    from clock, held
    where task.id = held.id
      and task.status in ('pending', 'dispatched')
    returning task.id, task.batch_id, task.tenant, task.agent_id, task.current_agent_turn_id, task.current_turn_epoch,
              task.error_detail, task.status, held.was
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, data)
    select clock.now, gone.id, gone.tenant, 'batch.task', gone.was, gone.status, gone.agent_id, gone.error_detail,
           jsonb_build_object('batch_id', gone.batch_id)
    from gone, clock
)
select id, batch_id, tenant, agent_id, case when was = 'dispatched' then current_agent_turn_id end as turn,
       current_turn_epoch as epoch
from gone
order by id
