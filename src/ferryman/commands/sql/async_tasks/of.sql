-- The async tasks of a command, in the order of their birth. The try and the worker of a live one are those of its task at this moment.
select async.id, async.tenant, async.task_type, async.message_type, async.triggered_by_command_id, async.status,
       async.progress::float8 as progress,
       case when async.completed_at is null and task.id is not null then least(task.attempt - 1, async.max_retries) else async.retry_count end
           as retry_count,
       async.max_retries,
       case when async.completed_at is null then coalesce(task.lease_owner::text, async.execution_node) else async.execution_node end
           as execution_node,
       async.task, async.deadline_at, async.started_at, async.completed_at, async.created_at, async.updated_at,
       async.input_data::text as input_data, async.result_data::text as result_data, async.error_data::text as error_data
from ferryman.async_tasks as async
left join ferryman.tasks as task on task.id = async.task
where async.triggered_by_command_id = :command
  and async.tenant = :tenant
order by async.id
