-- To whom the end of a task or a turn is owed, as its row says it; and the turn, if that is one which waits for a call.
select work.callback, work.callback_ref, waiting.agent_turn_id as turn
from (
    select task.callback, task.callback_ref
    from ferryman.tasks as task
    where task.id = :id
      and task.tenant = :tenant
    union all
    select message.callback, message.callback_ref
    from ferryman.agent_inbox as message
    where message.id = :id
      and message.tenant = :tenant
) as work
left join ferryman.turn_waiting_tools as waiting
    on waiting.tenant = :tenant
   and waiting.tool_call_id = split_part(work.callback_ref, '/', 3)
