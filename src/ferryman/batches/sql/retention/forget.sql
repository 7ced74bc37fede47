-- success | failed | timeout | partial -> (nothing)
-- With its tasks. The answer names those whose turns are not there, because they never were or were forgotten before: what was
-- made for them goes too. A row that somebody holds is left for the next walk.
with gone as materialized (
    select batch.id, batch.tenant
    from ferryman.pmo_batches as batch
    where batch.id = any(:ids::uuid[])
      and batch.finished_at is not null
      and batch.parent_told_at is not null
    order by batch.id
    for update skip locked
),
tasks as (
    delete from ferryman.pmo_batch_tasks as task
    using gone
    where task.batch_id = gone.id
    returning task.batch_id, task.tenant, task.agent_id, task.agent_turn_id, task.context_box_id, task.output_box_id
),
batches as (
    delete from ferryman.pmo_batches as batch
    using gone
    where batch.id = gone.id
)
select gone.id, gone.tenant, bare.agent_id, bare.agent_turn_id, bare.context_box_id, bare.output_box_id
from gone
left join (
    select tasks.*
    from tasks
    where not exists (select from ferryman.agent_inbox as message where message.id = tasks.agent_turn_id)
) as bare on bare.batch_id = gone.id
