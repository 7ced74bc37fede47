-- pending | dispatched -> failed | canceled | timeout, dispatched -> success | partial
-- A child's end, or a dispatch that can never succeed. Batches are locked. What has ended, or is another turn's, stays.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:ends::jsonb) as given (
            id uuid, turn uuid, expects text, status text, output_box uuid, error text, view jsonb)
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
held as materialized (
    select task.id, task.status as was, word.status, word.output_box, word.error,
           case when batch.metadata ->> 'structured_output' = 'tool_result' then word.view
                else word.view - 'tool_result' - 'tool_result_error' end as view
    from word
    join ferryman.pmo_batch_tasks as task on task.id = word.id
    join ferryman.pmo_batches as batch on batch.id = task.batch_id
    where task.status = any(string_to_array(word.expects, ','))
      and (word.turn is null or task.current_agent_turn_id = word.turn)
    order by task.id
    for update of task
),
gone as (
    update ferryman.pmo_batch_tasks as task
    set status = held.status, updated_at = clock.now, finished_at = clock.now, retryable = false,
        output_box_id = coalesce(held.output_box, task.output_box_id), error_detail = held.error,
        metadata = case when held.view is null then task.metadata
                        else task.metadata || jsonb_build_object('result_view', held.view) end
    from clock, held
    where task.id = held.id
      and task.status in ('pending', 'dispatched')
    returning task.id, task.batch_id, task.tenant, task.agent_id, task.current_agent_turn_id, task.error_detail, held.was,
              task.status
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, data)
    select clock.now, gone.id, gone.tenant, 'batch.task', gone.was, gone.status, gone.agent_id, gone.error_detail,
           jsonb_strip_nulls(jsonb_build_object('batch_id', gone.batch_id, 'agent_turn_id', gone.current_agent_turn_id))
    from gone, clock
)
select id, batch_id
from gone
