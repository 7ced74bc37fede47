-- The heads on which these turns are active.
select head.tenant, head.agent_id, head.active_agent_turn_id as id, head.turn_epoch, head.status, head.callback, head.callback_ref
from unnest((select :ids::uuid[])) as given (id)
join ferryman.agent_state_head as head on head.active_agent_turn_id = given.id
