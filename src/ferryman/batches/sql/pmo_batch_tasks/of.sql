-- The tasks of batches, in order.
select task.id, task.batch_id, task.task_index, task.status, task.agent_id, task.profile, task.attempt_count, task.retryable,
       task.next_retry_at, task.current_agent_turn_id, task.current_turn_epoch, task.context_box_id, task.output_box_id,
       task.error_detail, task.created_at, task.dispatched_at, task.finished_at, task.metadata::text
from (select given.id from unnest((select :batches::uuid[])) as given (id) limit (select 1000000)) as word
cross join lateral (
    select task.*
    from ferryman.pmo_batch_tasks as task
    where task.batch_id = word.id
    order by task.task_index
    limit (select 1000000)
) as task
order by task.batch_id, task.task_index
