-- W11: notes on children of which nothing is heard; their states stay (a late acknowledgement must not run a child twice).
update ferryman.pmo_batch_tasks as task
set updated_at = ferryman.clock(),
    metadata = task.metadata
        || jsonb_build_object('dispatch_warning_code', 'ack_pending_window_exceeded', 'dispatch_warning_at', ferryman.clock(),
                              'dispatch_warning_inbox_status', word.message_status)
        || case when word.answer is null then '{}'::jsonb
                else jsonb_build_object('dispatch_wakeup_sent_at', ferryman.clock(), 'dispatch_wakeup_ack_status', word.answer)
           end
from unnest((select :ids::uuid[]), (select :statuses::text[]), (select :answers::text[])) as word (id, message_status, answer)
where task.id = word.id
  and task.status = 'dispatched'
  and task.current_turn_epoch is null
returning task.id
