-- Stops that were asked for and not carried out, with the turn as it is now.
select message.tenant, message.id, message.agent_id, message.agent_turn_id, message.turn_epoch as asked_epoch,
       message.payload ->> 'reason' as reason, head.turn_epoch, coalesce(head.callback, turn.callback) as callback,
       coalesce(head.callback_ref, turn.callback_ref) as callback_ref
from ferryman.agent_inbox as message
left join ferryman.agent_state_head as head
  on head.active_agent_turn_id = message.agent_turn_id
left join ferryman.agent_inbox as turn
  on turn.id = message.agent_turn_id and turn.status = 'queued'
where message.archived_at is null
  and message.message_type = 'stop'
  and message.look_at <= ferryman.clock()
  and message.status = 'pending'
order by message.look_at
limit :limit
