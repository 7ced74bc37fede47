-- W3: results in hand whose lease has passed and whose turn no living worker holds.
select result.tenant, result.tool_call_id as id, result.agent_id
from (select ferryman.clock() as now) as clock, ferryman.turn_resume_ledger as result
left join ferryman.agent_state_head as head
  on head.active_agent_turn_id = result.agent_turn_id
where result.lease_expires_at <= clock.now
  and result.status = 'processing'
  and (head.leased_until is null or head.leased_until <= clock.now)
order by result.lease_expires_at
limit :limit
