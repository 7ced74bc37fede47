-- W11: children that were sent, and of which no epoch is known, with their messages as they are.
select task.id, task.batch_id, task.tenant, task.agent_id, task.current_agent_turn_id as turn, message.turn_epoch,
       message.status as message_status,
       task.dispatched_at <= clock.now - :warn_after::interval as late,
       task.metadata ? 'dispatch_warning_code' as warned,
       task.metadata ? 'dispatch_wakeup_sent_at' as woken,
       batch.fail_fast or batch.deadline_at <= clock.now as pressing
from (select ferryman.clock() as now) as clock, ferryman.pmo_batch_tasks as task
join ferryman.pmo_batches as batch on batch.id = task.batch_id
left join ferryman.agent_inbox as message on message.id = task.current_agent_turn_id
where task.status = 'dispatched'
  and task.current_turn_epoch is null
  and task.dispatched_at <= clock.now - :look_after::interval
  and (message.turn_epoch is not null
       or (task.dispatched_at <= clock.now - :warn_after::interval
           and (not task.metadata ? 'dispatch_warning_code'
                or (message.id is null and (batch.fail_fast or batch.deadline_at <= clock.now)))))
order by task.dispatched_at
limit :limit
