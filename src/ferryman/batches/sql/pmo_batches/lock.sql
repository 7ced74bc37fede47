-- Batches in the order in which everybody locks them: before their tasks, and before any head (B13).
with held as materialized (
    select batch.id, batch.tenant, batch.status, batch.fail_fast, batch.parent_agent_id
    from ferryman.pmo_batches as batch
    where batch.id = any(:ids::uuid[])
    order by batch.id
    for update
)
select held.id, held.tenant, held.status, held.fail_fast, held.parent_agent_id
from held
