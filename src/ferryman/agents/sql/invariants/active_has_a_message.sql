select head.tenant, head.agent_id, head.status, message.status as message_status
from ferryman.agent_state_head as head
left join ferryman.agent_inbox as message on message.tenant = head.tenant and message.id = head.active_inbox_id
where head.active_inbox_id is not null
  and message.status is distinct from case when head.status = 'dispatched' then 'pending' else 'processing' end
