-- Stops that were asked for and not carried out, with the turn as it is now.
select message.tenant, message.id, message.agent_id, message.agent_turn_id, message.turn_epoch as asked_epoch,
       message.payload ->> 'reason' as reason, head.turn_epoch, head.callback, head.callback_ref
from ferryman.agent_inbox as message
left join ferryman.agent_state_head as head
  on head.active_agent_turn_id = message.agent_turn_id
where message.archived_at is null
  and message.message_type = 'stop'
  and message.look_at <= ferryman.clock()
  and message.status = 'pending'
order by message.look_at
limit :limit
