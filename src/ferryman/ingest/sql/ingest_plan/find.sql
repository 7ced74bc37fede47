-- What a key has made. Spent: nothing of it is live, and not everything of it was done.
select plan.id, plan.status, plan.window_from, plan.window_to, count(slice.id) as slices,
       count(slice.id) filter (where slice.status = 'READY') as ready,
       count(slice.id) filter (where slice.status = 'PENDING') as waiting,
       count(slice.id) filter (where slice.status = 'FAILED') as failed,
       coalesce(bool_or(slice.status = 'FAILED' or task.status in ('FAILED', 'CANCELLED') or task.decision = 'none'), false)
           and not coalesce(bool_or(slice.status = 'PENDING' or task.status in ('QUEUED', 'DISPATCHED', 'EXECUTING')
                                    or (task.status = 'PARTIAL' and task.decision is null)), false) as spent
from ferryman.ingest_plan as plan
left join ferryman.ingest_slice as slice on slice.plan_id = plan.id
left join ferryman.ingest_task as task on task.slice_id = slice.id
where plan.tenant = :tenant
  and plan.plan_key = :plan_key
group by plan.id
