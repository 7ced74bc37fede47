select head.tenant, head.agent_id, head.status, last.to_state, head.turn_epoch, last.turn_epoch as logged_epoch
from ferryman.agent_state_head as head
cross join lateral (
    select event.to_state, (event.data ->> 'turn_epoch')::bigint as turn_epoch
    from ferryman.events as event
    where event.subject = head.active_agent_turn_id
      and event.kind = 'agent.state'
    order by event.id desc
    limit 1
) as last
where head.active_agent_turn_id is not null
  and (head.status, head.turn_epoch) is distinct from (last.to_state, last.turn_epoch)
