-- A18: suspended turns whose wall time has passed; one that is dispatched is ended by W6.
select head.tenant, head.agent_id, head.active_agent_turn_id as id, head.turn_epoch, head.callback, head.callback_ref
from (select ferryman.clock() as now) as clock, ferryman.agent_state_head as head
where head.resume_deadline <= clock.now
  and head.turn_deadline <= clock.now
  and head.status = 'suspended'
  and (head.callback is null or head.callback = any(:kinds::text[]))
order by head.resume_deadline
limit :limit
