-- -> running
-- A batch and its tasks, all pending; a repeat adds nothing.
with clock as materialized (
    select ferryman.clock() as now
),
born as (
    insert into ferryman.pmo_batches (
        id, tenant, created_at, updated_at, deadline_at, parent_turn_epoch, task_count, recursion_depth, parent_agent_turn_id,
        parent_step_id, budget_id, fail_fast, status, parent_agent_id, parent_tool_call_id, parent_channel_id, traceparent,
        metadata)
    select :id, :tenant, clock.now, clock.now, clock.now + :deadline::interval, :epoch::bigint, :task_count::integer,
           :depth::integer, :turn::uuid, :step::uuid, :budget::uuid, :fail_fast::boolean, 'running', :agent_id::text,
           :tool_call_id::text, :channel::text, :traceparent::text, :metadata::jsonb
    from clock
    on conflict do nothing
    returning id, tenant, created_at, deadline_at, parent_agent_id, task_count
),
tasks as (
    insert into ferryman.pmo_batch_tasks (
        id, tenant, batch_id, created_at, updated_at, ends_at, next_retry_at, task_index, agent_turn_id, context_box_id,
        output_box_id, status, agent_id, profile, payload_hash, metadata)
    select word.id, born.tenant, born.id, born.created_at, born.created_at, born.deadline_at, born.created_at, word.index,
           word.turn, word.context_box, word.output_box, 'pending', word.agent_id, word.profile, word.payload_hash,
           jsonb_build_object('task_index', word.index, 'task_args', word.args)
    from born
    cross join jsonb_to_recordset(:tasks::jsonb) as word (
        id uuid, turn uuid, index integer, agent_id text, profile text, context_box uuid, output_box uuid, payload_hash text,
        args jsonb)
    order by word.index
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name, data)
    select born.created_at, born.id, born.tenant, 'batch', 'running', coalesce(born.parent_agent_id, 'fork_join'),
           jsonb_build_object('task_count', born.task_count, 'deadline_at', born.deadline_at)
    from born
)
select id
from born
