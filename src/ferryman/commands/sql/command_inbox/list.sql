-- A page of a tenant's commands, newest first. One status or type among all is found by walking.
select command.id, command.tenant, command.scope, command.command_type, command.session_id, command.idempotency_key,
       command.status, command.tasks, command.open, command.failed, command.retry_count, command.error_code, command.error_message,
       command.deadline_at, command.created_at, command.updated_at, command.started_at, command.finished_at, command.task,
       command.payload::text as payload
from ferryman.command_inbox as command
where command.tenant = :tenant
  and (:status::text is null or command.status = :status::text)
  and (:type::text is null or command.command_type = :type::text)
  and (:before::uuid is null or command.id < :before::uuid)
order by command.id desc
limit :limit
