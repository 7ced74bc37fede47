-- What a firing has made.
select plan.plan_key
from ferryman.ingest_schedule_instance as instance
join ferryman.ingest_plan as plan on plan.schedule_instance_id = instance.id
where instance.tenant = :tenant
  and instance.job = :job
  and instance.fire_time = :fire_time
  and plan.source = :source
  and plan.endpoint = :endpoint
  and plan.operation = :operation
order by plan.id
limit 1
