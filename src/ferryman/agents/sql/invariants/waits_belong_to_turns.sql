select waited.tenant, waited.tool_call_id, waited.wait_status, head.status
from ferryman.turn_waiting_tools as waited
left join ferryman.agent_state_head as head
  on head.tenant = waited.tenant and head.agent_id = waited.agent_id and head.active_agent_turn_id = waited.agent_turn_id
where waited.wait_status in ('waiting', 'received')
  and (head.status is distinct from 'suspended' or head.turn_epoch <> waited.turn_epoch)
