-- The birth of slices; a signature that the plan has already is left out.
with clock as materialized (
    select ferryman.clock() as now
),
plan as materialized (
    -- Counted once: asked for each row, it would walk over all that this statement has written.
    select own.id, own.cursor_id, own.tenant, own.source,
           (select coalesce(max(other.slice_no), 0) from ferryman.ingest_slice as other where other.plan_id = own.id) as slices
    from ferryman.ingest_plan as own
    where own.id = :plan_id
),
made as (
    insert into ferryman.ingest_slice (
        id, plan_id, cursor_id, window_from, window_to, lower, upper, ends_at, created_at, updated_at, slice_no, estimate, depth,
        priority, tenant, source, status, slice_signature_hash, spec, params)
    select word.id, plan.id, plan.cursor_id, word.window_from, word.window_to, word.lower, word.upper,
           clock.now + :ends_after::interval, clock.now, clock.now,
           plan.slices + word.no, word.estimate, :depth, :priority, plan.tenant, plan.source, 'PENDING', word.signature, word.spec, word.params
    from jsonb_to_recordset(:slices::jsonb) as word (
        id uuid, no integer, window_from timestamptz, window_to timestamptz, lower bigint, upper bigint, estimate integer,
        signature text, spec jsonb, params jsonb),
        clock, plan
    on conflict (plan_id, slice_signature_hash) do nothing
    returning id, tenant, source, created_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name)
    select made.created_at, made.id, made.tenant, 'ingest_slice', 'PENDING', made.source
    from made
)
select id
from made
