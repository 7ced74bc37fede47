select task.id, task.tenant, event.tenant as logged_tenant, event.id as event
from ferryman.tasks as task
join ferryman.events as event on event.subject = task.id and event.kind = 'task'
where event.tenant <> task.tenant
