-- W8: messages of which no channel is known, past the time to skip them.
select message.tenant, message.id, message.agent_id, message.agent_turn_id, message.callback, message.callback_ref, head.turn_epoch
from (select ferryman.clock() as now) as clock, ferryman.agent_inbox as message
left join ferryman.agent_state_head as head
  on head.active_agent_turn_id = message.agent_turn_id
where message.archived_at is null
  and message.look_at <= clock.now
  and message.status = 'pending'
  and message.channel_id is null
  and head.active_channel_id is null
  and message.pending_at <= clock.now - :skip_after::interval
order by message.look_at
limit :limit
