-- One task as the holder of a claim knows it: what it needs to end it, and whether the claim is the latest, and still held.
select task.id, task.epoch, task.tenant, task.task_id, task.queue, task.name, task.attempt, task.max_retries, task.timeout_ms,
       task.callback, task.callback_ref, task.traceparent, task.backoff, task.payload, task.state,
       task.epoch = :epoch as latest,
       task.epoch = :epoch and task.state = 'running' and task.lease_owner = :owner as held
from ferryman.tasks as task
where task.id = :id
  and task.tenant = :tenant
