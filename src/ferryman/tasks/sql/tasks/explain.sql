-- Why something does not run: by its id, or by the task_id or schedule_id its creator gave it. What belongs to another tenant is not there.
select told.it::text as told
from (
    select ferryman.explain(coalesce(
        (select task.id from ferryman.tasks as task where task.tenant = :tenant and task.task_id = :task_id),
        (select schedule.id from ferryman.schedules as schedule
         where schedule.tenant = :tenant and schedule.schedule_id = :task_id and schedule.ended_at is null),
        :id::uuid)) as it
) as told
where told.it ->> 'tenant' = :tenant
