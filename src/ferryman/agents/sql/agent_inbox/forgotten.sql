-- A3: live messages whose time is over and that no head holds.
select message.tenant, message.id, message.agent_id, message.agent_turn_id, message.status, message.callback, message.callback_ref
from (select ferryman.clock() as now) as clock, ferryman.agent_inbox as message
where message.archived_at is null
  and message.look_at <= clock.now
  and message.ends_at <= clock.now
  and (message.callback is null or message.callback = any(:kinds::text[]))
  and not exists (select from ferryman.agent_state_head as head
                  where head.active_agent_turn_id = message.agent_turn_id)
order by message.look_at
limit :limit
