-- The epochs at which children were dispatched.
update ferryman.pmo_batch_tasks as task
set current_turn_epoch = word.epoch, updated_at = ferryman.clock()
from (select given.id, given.epoch
      from unnest((select :ids::uuid[]), (select :epochs::bigint[])) as given (id, epoch)
      limit (select 1000000)) as word
where task.id = word.id
  and task.status = 'dispatched'
  and task.current_turn_epoch is null
returning task.id
