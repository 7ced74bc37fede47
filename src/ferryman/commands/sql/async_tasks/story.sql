-- C10: everything that was logged of a command and of its async tasks, in order.
select event.id, event.at, event.tenant, event.kind, event.subject, event.subject_name, event.from_state, event.to_state, event.attempt,
       event.reason_code, event.reason_message, event.data::text as data, ferryman.event_token(event.logged_at) as token
from (
    select :command::uuid as id
    union all
    select task.id from ferryman.async_tasks as task where task.triggered_by_command_id = :command
) as part
join ferryman.events as event on event.subject = part.id
where event.tenant = :tenant
  and event.kind in ('command', 'async_task', 'fact')
order by event.id
limit :limit
