-- The batches that these turns forked, in order: one level of the tree.
select batch.id, batch.tenant, batch.status, batch.task_count, batch.fail_fast, batch.deadline_at, batch.created_at,
       batch.finished_at, batch.reason, batch.parent_agent_id, batch.parent_agent_turn_id, batch.parent_tool_call_id,
       batch.recursion_depth, batch.metadata::text
from unnest((select :agents::text[])) as given (agent_id)
join ferryman.pmo_batches as batch on batch.tenant = :tenant and batch.parent_agent_id = given.agent_id
where batch.parent_agent_turn_id = any(:turns::uuid[])
order by batch.id
