-- Who is past its deadline has timed out, and who was ended for another reason has failed. Otherwise the tasks say it: what was still open
-- when a failure ended a batch was cancelled, which says the same.
select batch.tenant, batch.id, batch.status, batch.reason, told.met
from ferryman.pmo_batches as batch
cross join lateral (
    select array_agg(distinct task.status order by task.status) as met
    from ferryman.pmo_batch_tasks as task
    where task.batch_id = batch.id
) as told
where batch.finished_at is not null
  and batch.status <> case
      when batch.reason = 'deadline' then 'timeout'
      when batch.reason is not null then 'failed'
      when batch.fail_fast and told.met && array['failed', 'canceled', 'timeout'] then 'failed'
      when told.met = array['success'] then 'success'
      when 'success' = any(told.met) then 'partial'
      when 'failed' = any(told.met) then 'failed'
      when 'timeout' = any(told.met) then 'timeout'
      when 'partial' = any(told.met) then 'partial'
      else 'failed' end
