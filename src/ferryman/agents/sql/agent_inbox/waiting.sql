-- W9: agents at rest with turns that wait.
select distinct on (message.tenant, message.agent_id) message.tenant, message.agent_id, message.id
from ferryman.agent_inbox as message
join ferryman.agent_state_head as head on head.tenant = message.tenant and head.agent_id = message.agent_id
where message.archived_at is null
  and message.status = 'queued'
  and head.status = 'idle'
order by message.tenant, message.agent_id, message.created_at
limit :limit
