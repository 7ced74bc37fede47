-- What a key has made.
select plan.id, plan.status, plan.window_from, plan.window_to, count(slice.id) as slices,
       count(slice.id) filter (where slice.status = 'READY') as ready,
       count(slice.id) filter (where slice.status = 'PENDING') as waiting,
       count(slice.id) filter (where slice.status = 'FAILED') as failed
from ferryman.ingest_plan as plan
left join ferryman.ingest_slice as slice on slice.plan_id = plan.id
where plan.tenant = :tenant
  and plan.plan_key = :plan_key
group by plan.id
