-- DRAFT -> SLICING
with moved as (
    update ferryman.ingest_plan
    set status = 'SLICING', updated_at = ferryman.clock()
    where id = :id
      and status = 'DRAFT'
    returning id, tenant, source, updated_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name)
    select moved.updated_at, moved.id, moved.tenant, 'ingest_plan', 'DRAFT', 'SLICING', moved.source
    from moved
)
select id
from moved
