-- What ended with something left and waits for the planner's word.
select task.id, task.tenant, task.source, task.endpoint, task.operation, task.slice_id, task.plan_id, task.error_code,
       task.expr_hash, task.priority, slice.spec::text as spec, slice.params::text as params, slice.lower, slice.upper,
       slice.covered, slice.depth, plan.config::text as config, plan.expression::text as expression, plan.cursor_id,
       last.after_token, last.has_next, run.stats::text as stats
from ferryman.ingest_task as task
join ferryman.ingest_slice as slice on slice.id = task.slice_id
join ferryman.ingest_plan as plan on plan.id = task.plan_id
join ferryman.ingest_run as run on run.task_id = task.id and run.attempt = task.attempt
left join lateral (
    select batch.after_token, batch.has_next
    from ferryman.ingest_batch as batch
    where batch.task_id = task.id
      and batch.status = 'SUCCEEDED'
    order by batch.committed_at desc, batch.batch_no desc
    limit 1
) as last on true
where task.status = 'PARTIAL'
  and task.decision is null
  and (task.source, task.endpoint) in (
      select known.source, known.endpoint
      from unnest(:known_sources::text[], :known_endpoints::text[]) as known (source, endpoint))
order by task.id
limit :limit
for update of task skip locked
