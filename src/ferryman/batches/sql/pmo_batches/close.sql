-- running -> success | failed | timeout | partial
-- One winner: whoever comes second finds no row (B7). An expiry holds only past the deadline.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.id, said.status, said.reason
    from (select given.* from jsonb_to_recordset(:closings::jsonb) as given (id uuid, status text, reason text)
          limit (select 1000000)) as said
    limit (select 1000000)
),
gone as (
    update ferryman.pmo_batches as batch
    set status = word.status, reason = word.reason, updated_at = clock.now, finished_at = clock.now
    from clock, word
    where batch.id = word.id
      and batch.status = 'running'
      and (word.status <> 'timeout' or word.reason is distinct from 'deadline' or batch.deadline_at <= clock.now)
    returning batch.id, batch.tenant, batch.status, batch.reason, batch.task_count, batch.recursion_depth,
              batch.parent_agent_id, batch.parent_agent_turn_id, batch.parent_tool_call_id
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, data)
    select clock.now, gone.id, gone.tenant, 'batch', 'running', gone.status, coalesce(gone.parent_agent_id, 'fork_join'),
           gone.reason, jsonb_build_object('task_count', gone.task_count)
    from gone, clock
)
select id, tenant, status, task_count, recursion_depth, parent_agent_id, parent_agent_turn_id, parent_tool_call_id
from gone
