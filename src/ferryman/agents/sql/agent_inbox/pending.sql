-- W8: messages that have waited too long to be taken in hand, behind a place.
select message.id, agent.worker_target, message.look_at
from (select ferryman.clock() as now) as clock, ferryman.agent_inbox as message
left join ferryman.agents as agent on agent.tenant = message.tenant and agent.agent_id = message.agent_id
where message.archived_at is null
  and message.look_at <= clock.now
  and (message.look_at, message.id) > (coalesce(:past_at::timestamptz, '-infinity'),
                                       coalesce(:past_id::uuid, '00000000-0000-0000-0000-000000000000'))
  and message.status = 'pending'
  and message.pending_at <= clock.now - :patience::interval
order by message.look_at, message.id
limit :limit
