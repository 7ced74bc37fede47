-- Batches as callers see them.
select batch.id, batch.tenant, batch.status, batch.task_count, batch.fail_fast, batch.deadline_at, batch.created_at,
       batch.finished_at, batch.reason, batch.parent_agent_id, batch.parent_agent_turn_id, batch.parent_tool_call_id,
       batch.recursion_depth, batch.metadata::text
from unnest((select :ids::uuid[])) with ordinality as given (id, nth)
join ferryman.pmo_batches as batch on batch.id = given.id and batch.tenant = :tenant
order by given.nth
