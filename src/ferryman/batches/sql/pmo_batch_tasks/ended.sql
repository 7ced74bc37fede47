-- W12: children that have ended and whose tasks are still open, among those sent longest ago. A child's end and its task's
-- commit together, so there are none; one that there is comes to the front, for every other task ends by its deadline.
select task.id, task.batch_id, task.tenant, task.agent_id, task.current_agent_turn_id as turn, message.turn_status,
       message.error_code, message.error, message.output_box_id, message.deliverable_card_id, message.tool_result_card_id
from (
    select task.*
    from ferryman.pmo_batch_tasks as task
    where task.status = 'dispatched'
    order by task.dispatched_at
    limit 2000
) as task
cross join lateral (
    select message.*
    from ferryman.agent_inbox as message
    where message.id = task.current_agent_turn_id
      and message.turn_status is not null
    limit 1
) as message
limit :limit
