select row.kind, row.id, row.status, last.to_state as logged
from (
    select 'command' as kind, id, status from ferryman.command_inbox
    union all
    select 'async_task', id, status from ferryman.async_tasks
) as row
cross join lateral (
    select event.to_state
    from ferryman.events as event
    where event.subject = row.id
      and event.kind = row.kind
      and event.to_state is not null
    order by event.id desc
    limit 1
) as last
where row.status <> last.to_state
