-- A turn may outlive the days of the log that tell of it: the last of an agent stays for as long as the agent does. What the log still
-- knows of it at all, it knows to its end: days are dropped whole, the oldest first.
select record.tenant, record.id, record.turn_status, told.count
from ferryman.agent_inbox as record
cross join lateral (
    select count(*) filter (where event.kind = 'agent.task') as count, count(*) as known
    from ferryman.events as event
    where event.subject = record.id
) as told
where record.message_type in ('turn', 'ui_action')
  and record.id = record.agent_turn_id
  and told.known > 0
  and told.count <> case when record.turn_status is null then 0 else 1 end
union all
select record.tenant, record.id, record.turn_status, null
from ferryman.agent_inbox as record
where record.message_type in ('turn', 'ui_action')
  and record.id = record.agent_turn_id
  and (record.archived_at is null) <> (record.turn_status is null)
