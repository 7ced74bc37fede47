-- READY | PARTIAL | FAILED -> (nothing)
-- With its slices, tasks, runs, batches and what these put aside; and the firing it came of, when that has no other plan. The moves
-- of cursors stay: they prove where a cursor stands. A row that somebody holds is left for the next walk.
with gone as materialized (
    select plan.id, plan.schedule_instance_id
    from ferryman.ingest_plan as plan
    where plan.id = any(:ids::uuid[])
      and plan.finished_at is not null
      and not exists (select from ferryman.ingest_task as task where task.plan_id = plan.id and task.finished_at is null)
    order by plan.id
    for update skip locked
),
tasks as (
    delete from ferryman.ingest_task as task
    using gone
    where task.plan_id = gone.id
      and task.finished_at is not null
    returning task.id
),
batches as (
    delete from ferryman.ingest_batch as batch
    using tasks
    where batch.task_id = tasks.id
    returning batch.id
),
aside as (
    delete from ferryman.ingest_quarantine as bad
    using batches
    where bad.batch_id = batches.id
),
runs as (
    delete from ferryman.ingest_run as run
    using tasks
    where run.task_id = tasks.id
),
slices as (
    delete from ferryman.ingest_slice as slice
    using gone
    where slice.plan_id = gone.id
),
plans as (
    delete from ferryman.ingest_plan as plan
    using gone
    where plan.id = gone.id
    returning plan.id
),
firings as (
    delete from ferryman.ingest_schedule_instance as firing
    using gone
    where firing.id = gone.schedule_instance_id
      and not exists (select from ferryman.ingest_plan as other
                      where other.schedule_instance_id = firing.id
                        and other.id not in (select gone.id from gone))
)
select id
from plans
