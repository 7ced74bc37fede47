-- W12: closed batches whose parents were not told.
select batch.id, batch.tenant, batch.status, batch.task_count, batch.recursion_depth, batch.parent_agent_id,
       batch.parent_agent_turn_id, batch.parent_tool_call_id
from ferryman.pmo_batches as batch
where batch.finished_at is not null
  and batch.parent_told_at is null
order by batch.finished_at
limit :limit
