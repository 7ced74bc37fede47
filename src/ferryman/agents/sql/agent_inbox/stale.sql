-- W1: messages in hand for too long, of turns that no living worker holds and that wait for nothing.
select message.tenant, message.id, message.agent_id, message.agent_turn_id, message.requeue_count, message.message_type,
       head.active_agent_turn_id is not null as active, head.turn_epoch, coalesce(head.callback, message.callback) as callback,
       coalesce(head.callback_ref, message.callback_ref) as callback_ref
from (select ferryman.clock() as now) as clock, ferryman.agent_inbox as message
left join ferryman.agent_state_head as head
  on head.active_agent_turn_id = message.agent_turn_id
where message.archived_at is null
  and message.look_at <= clock.now
  and message.status = 'processing'
  and message.processed_at <= clock.now - :patience::interval
  and (head.status is null or (head.status = 'running' and head.leased_until <= clock.now)
       or (head.status = 'dispatched' and head.active_inbox_id = message.id))
order by message.look_at
limit :limit
