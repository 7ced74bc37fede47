-- W14 finds: a step or a capability that waits, due for longer than anybody needs to come up, while workers live and none of them
-- knows it. With no worker that has lived for so long nobody can tell: it waits on, until its deadline. A remote worker tells of its
-- own tenant alone.
with clock as materialized (
    select ferryman.clock() as now, ferryman.clock() - :patience::interval as before
),
living as materialized (
    select worker.tenant, worker.queues, worker.handlers, worker.started_at
    from ferryman.workers as worker, clock
    where worker.seen_until >= clock.now
),
owed as (
    select part.task
    from ferryman.command_inbox as command
    cross join lateral (
        select command.task
        union all
        select task.task from ferryman.async_tasks as task where task.triggered_by_command_id = command.id and task.completed_at is null
        union all
        select task.follow_up from ferryman.async_tasks as task where task.triggered_by_command_id = command.id
    ) as part
    where command.finished_at is null
    union all
    select task.task
    from ferryman.async_tasks as task
    where task.triggered_by_command_id is null
      and task.completed_at is null
)
select task.id, task.name, task.queue, task.callback, task.callback_ref
from owed
join ferryman.tasks as task on task.id = owed.task, clock
where exists (select from living
              where living.started_at <= clock.before
                and coalesce(living.tenant, task.tenant) = task.tenant)
  and task.rank is not null
  and task.due_at <= clock.before
  and not exists (select from living
                  where task.queue = any(living.queues)
                    and task.name = any(living.handlers)
                    and coalesce(living.tenant, task.tenant) = task.tenant)
order by task.due_at
limit :limit
