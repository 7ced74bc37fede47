select record.tenant, record.id, record.turn_status, told.count
from ferryman.agent_inbox as record
cross join lateral (
    select count(*) as count
    from ferryman.events as event
    where event.subject = record.id
      and event.kind = 'agent.task'
) as told
where record.message_type in ('turn', 'ui_action')
  and record.id = record.agent_turn_id
  and told.count <> case when record.turn_status is null then 0 else 1 end
union all
select record.tenant, record.id, record.turn_status, null
from ferryman.agent_inbox as record
where record.message_type in ('turn', 'ui_action')
  and record.id = record.agent_turn_id
  and (record.archived_at is null) <> (record.turn_status is null)
