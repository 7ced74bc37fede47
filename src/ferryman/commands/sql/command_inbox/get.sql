-- One command of a tenant.
select command.id, command.tenant, command.scope, command.command_type, command.session_id, command.idempotency_key,
       command.status, command.tasks, command.open, command.failed, command.retry_count, command.error_code, command.error_message,
       command.deadline_at, command.created_at, command.updated_at, command.started_at, command.finished_at, command.task,
       command.payload::text as payload
from ferryman.command_inbox as command
where command.id = :id
  and command.tenant = :tenant
