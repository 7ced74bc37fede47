select task.tenant, task.id, task.status, message.turn_status
from ferryman.pmo_batch_tasks as task
join ferryman.agent_inbox as message on message.id = task.current_agent_turn_id
where task.finished_at is null
  and message.turn_status is not null
