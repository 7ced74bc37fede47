-- -> running
-- Batches and their tasks, all pending; a repeat adds nothing.
-- Ordered by id: two who make the same batches wait for each other in one order.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.*
    from jsonb_to_recordset(:batches::jsonb) as given (
        id uuid, tenant text, deadline_us bigint, epoch bigint, task_count integer, depth integer, turn uuid, step uuid,
        budget uuid, fail_fast boolean, agent_id text, tool_call_id text, channel text, traceparent text, metadata jsonb)
),
born as (
    insert into ferryman.pmo_batches (
        id, tenant, created_at, updated_at, deadline_at, parent_turn_epoch, task_count, recursion_depth, parent_agent_turn_id,
        parent_step_id, budget_id, fail_fast, status, parent_agent_id, parent_tool_call_id, parent_channel_id, traceparent,
        metadata)
    select word.id, word.tenant, clock.now, clock.now, clock.now + word.deadline_us * interval '1 microsecond', word.epoch,
           word.task_count, word.depth, word.turn, word.step, word.budget, word.fail_fast, 'running', word.agent_id,
           word.tool_call_id, word.channel, word.traceparent, word.metadata
    from word, clock
    order by word.id
    on conflict do nothing
    returning id, tenant, created_at, deadline_at, parent_agent_id, task_count
),
tasks as (
    insert into ferryman.pmo_batch_tasks (
        id, tenant, batch_id, created_at, updated_at, ends_at, next_retry_at, task_index, agent_turn_id, context_box_id,
        output_box_id, status, agent_id, profile, payload_hash, metadata)
    select task.id, born.tenant, born.id, born.created_at, born.created_at, born.deadline_at, born.created_at, task.index,
           task.turn, task.context_box, task.output_box, 'pending', task.agent_id, task.profile, task.payload_hash,
           jsonb_build_object('task_index', task.index, 'task_args', task.args)
    from jsonb_to_recordset(:tasks::jsonb) as task (
        batch uuid, id uuid, turn uuid, index integer, agent_id text, profile text, context_box uuid, output_box uuid,
        payload_hash text, args jsonb)
    join born on born.id = task.batch
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name, data)
    select born.created_at, born.id, born.tenant, 'batch', 'running', coalesce(born.parent_agent_id, 'fork_join'),
           jsonb_build_object('task_count', born.task_count, 'deadline_at', born.deadline_at)
    from born
)
select id
from born
