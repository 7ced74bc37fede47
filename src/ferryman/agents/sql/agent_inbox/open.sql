-- What is in an agent's inbox and not done with, oldest first.
select message.id, message.message_type, message.status, message.agent_turn_id, message.tool_call_id, message.source_agent_id,
       message.source_turn_id, message.merged_into, message.requeue_count, message.created_at, message.ends_at
from ferryman.agent_inbox as message
where message.tenant = :tenant
  and message.agent_id = :agent_id
  and message.archived_at is null
order by message.created_at, message.id
limit :limit
