-- A firing of a job is taken once; who comes second is answered with what is there.
with made as (
    insert into ferryman.ingest_schedule_instance (
        id, fire_time, created_at, tenant, job, trigger_type, source, endpoint, operation, params)
    values (:id, :fire_time, ferryman.clock(), :tenant, :job, :trigger_type, :source, :endpoint, :operation, :params::jsonb)
    on conflict (tenant, job, fire_time) do nothing
    returning id
)
select id, true as made
from made
union all
select instance.id, false
from ferryman.ingest_schedule_instance as instance
where instance.tenant = :tenant
  and instance.job = :job
  and instance.fire_time = :fire_time
  and not exists (select from made)
