-- W4: suspended turns that wait for nothing any more, and were not put before the workers. The status is spelled so that the
-- index of late calls does not serve: read once for each of many waiting turns, it made the look quadratic.
select head.tenant, head.agent_id, head.active_agent_turn_id as id, head.turn_epoch
from ferryman.agent_state_head as head
where head.resume_deadline is not null
  and head.status = 'suspended'
  and head.ready_at is null
  and not exists (select from ferryman.turn_waiting_tools as waited
                  where waited.agent_turn_id = head.active_agent_turn_id
                    and waited.wait_status in ('waiting', ''))
order by head.resume_deadline
limit :limit
