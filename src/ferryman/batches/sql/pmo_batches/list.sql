-- Batches of a tenant, newest first, a page at a time. Those of one end are found by walking.
select batch.id, batch.tenant, batch.status, batch.task_count, batch.fail_fast, batch.deadline_at, batch.created_at,
       batch.finished_at, batch.reason, batch.parent_agent_id, batch.parent_agent_turn_id, batch.parent_tool_call_id,
       batch.recursion_depth, batch.metadata::text
from ferryman.pmo_batches as batch
where batch.tenant = :tenant
  and (:before::uuid is null or batch.id < :before)
  and (:status::text is null or batch.status = :status)
order by batch.id desc
limit :limit
