-- What is leased to an owner that does not know of it: a claim whose answer was lost.
select head.active_agent_turn_id as id, head.turn_epoch
from ferryman.agent_state_head as head
where head.leased_until is not null
  and head.ready_at is null
  and head.lease_owner = :owner
  and not (head.active_agent_turn_id = any(:held::uuid[]))
