-- PENDING -> FAILED
with word as (
    select given.id, given.reason
    from unnest(:ids::uuid[], :reasons::text[]) as given (id, reason)
),
moved as (
    update ferryman.ingest_slice as slice
    set status = 'FAILED', reason = word.reason, updated_at = ferryman.clock()
    from word
    where slice.id = word.id
      and slice.status = 'PENDING'
    returning slice.id, slice.tenant, slice.source, slice.reason, slice.updated_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_message)
    select moved.updated_at, moved.id, moved.tenant, 'ingest_slice', 'PENDING', 'FAILED', moved.source, moved.reason
    from moved
)
select id
from moved
