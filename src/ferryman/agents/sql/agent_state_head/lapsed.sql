-- Running turns whose lease has passed. `silent` tells that nobody took them over in time (W7), `over` that their wall time
-- has passed (A18); `worn` that they were brought back, or resumed, as often as they may be.
select head.tenant, head.agent_id, head.active_agent_turn_id as id, head.turn_epoch, head.callback, head.callback_ref,
       head.ready_at is not null as released,
       head.leased_until <= clock.now - :patience::interval as silent,
       head.turn_deadline <= clock.now as over,
       coalesce(message.requeue_count >= :cap, false) as worn,
       exists (select from ferryman.turn_resume_ledger as result
               where result.agent_turn_id = head.active_agent_turn_id
                 and result.status in ('pending', 'processing') and result.attempt_count >= :cap) as exhausted
from (select ferryman.clock() as now) as clock, ferryman.agent_state_head as head
left join ferryman.agent_inbox as message on message.id = head.active_inbox_id
where head.leased_until <= clock.now
  and (head.callback is null or head.callback = any(:kinds::text[]))
  and (head.ready_at is null or head.leased_until <= clock.now - :patience::interval or head.turn_deadline <= clock.now)
order by head.leased_until
limit :limit
