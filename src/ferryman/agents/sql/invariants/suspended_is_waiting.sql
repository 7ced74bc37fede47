select head.tenant, head.agent_id, head.waiting_tool_count, open.count
from ferryman.agent_state_head as head
cross join lateral (
    select count(*) as count, min(waited.deadline_at) as soonest
    from ferryman.turn_waiting_tools as waited
    where waited.tenant = head.tenant
      and waited.agent_turn_id = head.active_agent_turn_id
      and waited.wait_status = 'waiting'
) as open
where head.status = 'suspended'
  and (head.waiting_tool_count <> open.count
       or (head.ready_at is null) <> (open.count > 0)
       or head.resume_deadline is distinct from least(head.turn_deadline, open.soonest))
