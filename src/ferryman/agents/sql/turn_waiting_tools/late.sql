-- W2: calls past their deadline, whose turn still waits for them.
select waited.tenant, waited.tool_call_id, waited.agent_id, waited.agent_turn_id, waited.turn_epoch, waited.tool_name,
       waited.after_execution, waited.wait_status, head.active_recursion_depth as recursion_depth
from ferryman.turn_waiting_tools as waited
join ferryman.agent_state_head as head on head.active_agent_turn_id = waited.agent_turn_id
where waited.wait_status = 'waiting'
  and waited.deadline_at <= ferryman.clock()
  and head.status = 'suspended'
order by waited.deadline_at
limit :limit
