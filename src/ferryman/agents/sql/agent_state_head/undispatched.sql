-- Dispatched turns that nobody picked up: those to be put into the inbox again (W5), and those whose time is over (W6).
select head.tenant, head.agent_id, head.active_agent_turn_id as id, head.turn_epoch, head.callback, head.callback_ref,
       head.dispatch_deadline <= clock.now as over
from (select ferryman.clock() as now) as clock, ferryman.agent_state_head as head
where head.ready_at > '-infinity'
  and head.ready_at <= clock.now
  and head.status = 'dispatched'
  and case when :over::boolean then head.dispatch_deadline <= clock.now
                                    and (head.callback is null or head.callback = any(:kinds::text[]))
           else head.dispatch_deadline > clock.now
                and greatest(head.since_at, head.retried_at) <= clock.now - :retry_after::interval end
order by head.ready_at
limit :limit
