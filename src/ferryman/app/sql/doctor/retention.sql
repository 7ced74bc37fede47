-- How much of each domain is past the time for which it is kept, and for how long the oldest of it. Up to a million of each.
-- What the walks let stay (a turn that something live needs, a plan that its cursor has not passed) is not counted. Only among what
-- is old enough by its id, where ids tell the time, so that a table of young rows is not read. What an index is to be read by is said
-- with the clock itself, once for all terms of a domain: the exact term, beside it, is known only where the row is.
with clock as materialized (
    select ferryman.clock() as now
),
kept as materialized (
    select :turns::interval as turns, :batches::interval as batches, :plans::interval as plans, :commands::interval as commands
),
used as materialized (
    select box.id from ferryman.boxes_in_use() as box (id)
),
owed as materialized (
    select distinct task.tenant, task.agent_id
    from ferryman.pmo_batch_tasks as task
    where task.status = 'pending'
      and task.retryable
)
select past.domain, count(*) as count, extract(epoch from max(past.by))::float8 as longest_seconds
from (
    (select 'task' as domain,
            clock.now - task.finished_at - case task.state when 'failed' then :failed_tasks::interval else :tasks::interval end as by
     from clock, ferryman.tasks as task
     where task.id < ferryman.id_at(ferryman.clock() - least(:tasks::interval, :failed_tasks::interval))
       and task.finished_at <= clock.now - case task.state when 'failed' then :failed_tasks::interval else :tasks::interval end
     limit 1000000)
    union all
    (select 'turn', clock.now - message.archived_at - kept.turns
     from clock, kept, ferryman.agent_inbox as message
     left join ferryman.agent_state_head as head on head.tenant = message.tenant and head.agent_id = message.agent_id
     left join ferryman.agents as agent on agent.id = head.id
     left join ferryman.agent_inbox as asking on asking.id = message.source_turn_id
     where message.id < ferryman.id_at(ferryman.clock() - :turns::interval)
       and message.archived_at <= clock.now - kept.turns
       and (message.agent_turn_id is distinct from message.id
            or ((message.context_box_id in (select used.id from used)) is not true
                and (message.output_box_id in (select used.id from used)) is not true
                and not (asking.id is not null and asking.archived_at is null)
                and (head.last_output_box_id is distinct from message.output_box_id
                     or (agent.derived_from is not null and head.status = 'idle' and head.since_at <= clock.now - kept.turns
                         and not exists (select from owed
                                         where owed.tenant = message.tenant and owed.agent_id = message.agent_id)))))
     limit 1000000)
    union all
    (select 'batch', clock.now - batch.finished_at - kept.batches
     from clock, kept, ferryman.pmo_batches as batch
     where batch.finished_at <= ferryman.clock() - :batches::interval
       and batch.finished_at <= clock.now - kept.batches
       and batch.parent_told_at is not null
     limit 1000000)
    union all
    (select 'command', clock.now - command.finished_at - kept.commands
     from clock, kept, ferryman.command_inbox as command
     where command.id < ferryman.id_at(ferryman.clock() - :commands::interval)
       and command.finished_at <= clock.now - kept.commands
     limit 1000000)
    union all
    (select 'async task', clock.now - task.completed_at - kept.commands
     from clock, kept, ferryman.async_tasks as task
     where task.id < ferryman.id_at(ferryman.clock() - :commands::interval)
       and task.completed_at <= clock.now - kept.commands
       and task.triggered_by_command_id is null
     limit 1000000)
    union all
    (select 'plan', clock.now - plan.finished_at - kept.plans
     from clock, kept, ferryman.ingest_plan as plan
     where plan.id < ferryman.id_at(ferryman.clock() - :plans::interval)
       and plan.finished_at <= clock.now - kept.plans
       and not exists (select from ferryman.ingest_task as task
                       where task.plan_id = plan.id
                         and (task.finished_at is null or task.finished_at > clock.now - kept.plans
                              or (task.status = 'PARTIAL' and task.decision is null)))
       and not exists (select from ferryman.ingest_slice as slice
                       left join ferryman.ingest_cursor as cursor on cursor.id = slice.cursor_id
                       where slice.plan_id = plan.id
                         and (slice.status = 'PENDING' or (slice.cursor_id is not null and slice.upper > cursor.position)))
     limit 1000000)
    union all
    (select 'delivery',
            clock.now - delivery.finished_at
            - case delivery.state when 'dead' then :dead_deliveries::interval else :deliveries::interval end
     from clock, ferryman.webhook_deliveries as delivery
     where delivery.finished_at < ferryman.clock() - least(:deliveries::interval, :dead_deliveries::interval)
       and delivery.finished_at < clock.now - case delivery.state when 'dead' then :dead_deliveries::interval else :deliveries::interval end
     limit 1000000)
) as past
group by past.domain
order by past.domain
