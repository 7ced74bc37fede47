-- Batches of a tenant that run, newest first, as list.sql, but found by the index of those that run.
select batch.id, batch.tenant, batch.status, batch.task_count, batch.fail_fast, batch.deadline_at, batch.created_at,
       batch.finished_at, batch.reason, batch.parent_agent_id, batch.parent_agent_turn_id, batch.parent_tool_call_id,
       batch.recursion_depth, batch.metadata::text
from ferryman.pmo_batches as batch
where batch.tenant = :tenant
  and (:before::uuid is null or batch.id < :before)
  and batch.finished_at is null
order by batch.id desc
limit :limit
