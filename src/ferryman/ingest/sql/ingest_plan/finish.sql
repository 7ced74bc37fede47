-- SLICING -> READY | PARTIAL | FAILED
-- All slices ready: READY. None: FAILED, unless some only wait for room. Else PARTIAL.
with counted as materialized (
    select count(*) filter (where slice.status = 'READY') as ready,
           count(*) filter (where slice.status = 'PENDING') as waiting,
           count(*) filter (where slice.status = 'FAILED') as failed
    from ferryman.ingest_slice as slice
    where slice.plan_id = :id
),
moved as (
    update ferryman.ingest_plan as plan
    set status = case when counted.waiting + counted.failed = 0 and counted.ready > 0 then 'READY'
                      when counted.ready + counted.waiting = 0 then 'FAILED'
                      else 'PARTIAL' end,
        finished_at = ferryman.clock(), updated_at = ferryman.clock()
    from counted
    where plan.id = :id
      and plan.status = 'SLICING'
    returning plan.id, plan.tenant, plan.source, plan.status, plan.updated_at, counted.ready, counted.waiting, counted.failed
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name)
    select moved.updated_at, moved.id, moved.tenant, 'ingest_plan', 'SLICING', moved.status, moved.source
    from moved
)
select id, status, ready, waiting, failed
from moved
