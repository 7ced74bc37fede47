-- Nothing of ingestion crosses a tenant.
select task.id, task.tenant, slice.tenant as slice_tenant, plan.tenant as plan_tenant
from ferryman.ingest_task as task
join ferryman.ingest_slice as slice on slice.id = task.slice_id
join ferryman.ingest_plan as plan on plan.id = task.plan_id
where task.tenant <> slice.tenant
   or task.tenant <> plan.tenant
