-- K22 for batches, commands, webhooks and ingestion; and what the watchdog has to do with any of them.

-- A number of the settings in force, as the workers keep them.
create function ferryman.setting_of(key text, otherwise float8) returns float8
language sql stable as $$
    select coalesce((select setting.value::text::float8 from ferryman.settings as setting where setting.name = setting_of.key), setting_of.otherwise)
$$;

-- K21: a turn that waits in line may be dispatched just before its time is over, and has the time of any other then.
create or replace view ferryman.bounds_agents as
select 'agent'::text as domain, head.active_agent_turn_id as id, head.tenant, head.status as state,
       case head.status when 'dispatched' then 'W6' when 'running' then 'W7' else 'W2' end as rule,
       case head.status when 'dispatched' then head.dispatch_deadline
                        when 'running' then least(head.turn_deadline + interval '5 s',
                                                  head.leased_until + ferryman.agents_setting('pmo.active_reap_seconds', 300))
                        else head.resume_deadline end as ends_by,
       head.turn_deadline + interval '5 s' + 2 * ferryman.slack() as terminal_by
from ferryman.agent_state_head as head
where head.active_agent_turn_id is not null
union all
select 'message', message.id, message.tenant, message.status,
       case message.status when 'processing' then 'W1' when 'pending' then 'W8' else 'A3' end,
       message.ends_at,
       message.ends_at + 2 * ferryman.slack()
           + case when message.status = 'queued'
                  then ferryman.agents_setting('pmo.dispatched_timeout_seconds', 30) + interval '65 s'
                       + coalesce(message.wall_ms * interval '1 ms', ferryman.agents_setting('agents.wall_seconds', 3600))
                  else interval '0' end
from ferryman.agent_inbox as message
where message.archived_at is null
union all
select 'wait', waiting.agent_turn_id, waiting.tenant, waiting.wait_status, 'W2', waiting.deadline_at,
       waiting.ends_at + 2 * ferryman.slack()
from ferryman.turn_waiting_tools as waiting
where waiting.wait_status = 'waiting';

select ferryman.unite_bounds();

create function ferryman.explained_batches(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'batch', 'id', batch.id, 'tenant', batch.tenant, 'state', batch.status, 'tasks', batch.task_count, 'open', part.open,
        'parent_turn', batch.parent_agent_turn_id, 'fail_fast', batch.fail_fast, 'error_code', batch.reason,
        'doing', case when batch.finished_at is null then format('It waits for %s of its %s tasks.', part.open, batch.task_count)
                      else format('It has ended as %s%s.', batch.status, ': ' || batch.reason) end)
    from ferryman.pmo_batches as batch
    cross join lateral (
        select count(*) filter (where task.finished_at is null) as open from ferryman.pmo_batch_tasks as task where task.batch_id = batch.id
    ) as part
    where batch.id = explained_batches.id
    union all
    select jsonb_build_object(
        'domain', 'batch_task', 'id', task.id, 'tenant', task.tenant, 'name', task.profile, 'agent_id', task.agent_id, 'state', task.status,
        'batch', task.batch_id, 'task_index', task.task_index, 'turn', task.agent_turn_id, 'attempt', task.attempt_count,
        'doing', case task.status when 'pending' then 'It waits to be dispatched.'
                                  when 'dispatched' then format('The turn %s of %s does it.', task.agent_turn_id, task.agent_id)
                                  else format('It has ended as %s.', task.status) end)
    from ferryman.pmo_batch_tasks as task
    where task.id = explained_batches.id
$$;

create function ferryman.reasons_batches(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with batch as materialized (
        select each.* from ferryman.pmo_batches as each where each.id = reasons_batches.id
    ),
    task as materialized (
        select each.*, turn.id as message_id, coalesce(turn.turn_status, head.status, turn.status) as turn_state
        from ferryman.pmo_batch_tasks as each
        left join ferryman.agent_inbox as turn on turn.id = each.agent_turn_id
        left join ferryman.agent_state_head as head on head.active_agent_turn_id = each.agent_turn_id
        where each.id = reasons_batches.id
    )
    (select 'waiting_for_task', format('Task %s (%s of %s) is %s.', open.task_index, open.id, open.agent_id, open.status), open.ends_at,
           jsonb_build_object('task', open.id, 'task_index', open.task_index, 'turn', open.agent_turn_id, 'status', open.status)
    from batch
    join ferryman.pmo_batch_tasks as open on open.batch_id = batch.id
    where open.finished_at is null
    order by open.task_index
    limit 20)
    union all
    select 'parent_waits', format('The turn %s of %s waits for it.', batch.parent_agent_turn_id, batch.parent_agent_id), null,
           jsonb_build_object('turn', batch.parent_agent_turn_id)
    from batch
    where batch.finished_at is null and batch.parent_agent_turn_id is not null
    union all
    select 'parent_untold', 'Its parent was not told: W12 tells it at its next look.', null, '{}'
    from batch
    where batch.finished_at is not null and batch.parent_told_at is null
    union all
    select 'backing_off', format('Its agent did not take it (try %s%s); it is asked again at %s.', task.attempt_count,
                                 ': ' || task.error_detail, ferryman.spelled(task.next_retry_at)),
           task.next_retry_at, jsonb_build_object('error', task.error_detail)
    from task
    where task.status = 'pending' and task.next_retry_at > ferryman.clock()
    union all
    select 'due', 'It is due: B5 dispatches it at the next look of a worker.', null, '{}'
    from task
    where task.status = 'pending' and task.next_retry_at <= ferryman.clock()
    union all
    select 'no_worker', 'No worker is alive.', null, '{}'
    from task
    where task.finished_at is null and not exists (select from ferryman.living('profiles', null))
    union all
    select 'waiting_for_turn', format('Its turn %s is %s; explain that one.', task.agent_turn_id, task.turn_state), null,
           jsonb_build_object('turn', task.agent_turn_id, 'state', task.turn_state)
    from task
    where task.status = 'dispatched' and task.message_id is not null
    union all
    select 'turn_unheard', 'No message of its turn is there: W11 looks for it, and warns after a minute.', null, jsonb_build_object('turn', task.agent_turn_id)
    from task
    where task.status = 'dispatched' and task.message_id is null
    union all
    select 'ended', format('It ended as %s at %s%s.', ended.status, ferryman.spelled(ended.finished_at), ': ' || ended.error), null,
           jsonb_build_object('ended_at', ended.finished_at, 'error_code', ended.error)
    from (select status, finished_at, reason as error from batch union all select status, finished_at, error_detail from task) as ended
    where ended.finished_at is not null
$$;

-- How a command or an async task ended; and of what runs for it, why that does not run.
create function ferryman.reasons_commands_ends(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select 'ended', format('It ended as %s at %s%s.', ended.status, ferryman.spelled(ended.at), ': ' || rtrim(ended.error, '.')), null::timestamptz,
           jsonb_build_object('ended_at', ended.at, 'error_code', ended.code)
    from (
        select command.status, command.finished_at as at, command.error_message as error, command.error_code as code
        from ferryman.command_inbox as command
        where command.id = reasons_commands_ends.id
        union all
        select task.status, task.completed_at, coalesce(task.error_data ->> 'message', task.error_data ->> 'reason'), task.error_data ->> 'code'
        from ferryman.async_tasks as task
        where task.id = reasons_commands_ends.id
    ) as ended
    where ended.at is not null
$$;

create function ferryman.reasons_commands_tasks(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select reason.code, format('Its task: %s', reason.says), reason.until, reason.about || jsonb_build_object('task', owed.task)
    from (
        select command.task from ferryman.command_inbox as command where command.id = reasons_commands_tasks.id and command.status = 'RECEIVED'
        union all
        select task.task from ferryman.async_tasks as task where task.id = reasons_commands_tasks.id and task.completed_at is null
    ) as owed
    cross join lateral (
        select * from ferryman.reasons_tasks(owed.task)
        union all
        select * from ferryman.reasons_tasks_queues(owed.task)
        union all
        select * from ferryman.reasons_tasks_waits(owed.task)
        union all
        select * from ferryman.reasons_tasks_workers(owed.task)
    ) as reason
    where owed.task is not null
$$;

-- Who sends a delivery at this moment, and whether anybody would.
create function ferryman.reasons_webhook_workers(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select holder.code, holder.says, holder.until, holder.about
    from ferryman.webhook_deliveries as delivery
    cross join lateral ferryman.held(delivery.lease_owner, null, delivery.leased_until, ' When the lease has ended it is sent again.') as holder
    where delivery.id = reasons_webhook_workers.id and delivery.leased_until > ferryman.clock()
    union all
    select 'no_worker', 'No worker is alive.', null, '{}'
    from ferryman.webhook_deliveries as delivery
    where delivery.id = reasons_webhook_workers.id and delivery.finished_at is null
      and (delivery.leased_until is null or delivery.leased_until <= ferryman.clock())
      and not exists (select from ferryman.living('sources', null))
$$;

-- Ingestion. A slice and its task have one id: what is told is the task as soon as there is one.
create function ferryman.explained_ingest(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'ingest_plan', 'id', plan.id, 'tenant', plan.tenant, 'name', plan.source, 'state', plan.status, 'endpoint', plan.endpoint,
        'operation', plan.operation, 'slices', part.slices, 'open', part.open,
        'doing', case when plan.finished_at is null then format('It is being sliced: %s of its %s slices wait for a task.', part.pending, part.slices)
                      when part.open > 0 then format('It is sliced (%s); %s of its %s tasks have not ended.', plan.status, part.open, part.slices)
                      else format('It has ended as %s.', plan.status) end)
    from ferryman.ingest_plan as plan
    cross join lateral (
        select (select count(*) from ferryman.ingest_slice as slice where slice.plan_id = plan.id) as slices,
               (select count(*) from ferryman.ingest_slice as slice where slice.plan_id = plan.id and slice.status = 'PENDING') as pending,
               (select count(*) from ferryman.ingest_task as task where task.plan_id = plan.id and task.finished_at is null) as open
    ) as part
    where plan.id = explained_ingest.id
    union all
    select jsonb_build_object(
        'domain', 'ingest_task', 'id', task.id, 'tenant', task.tenant, 'name', task.source, 'state', task.status, 'endpoint', task.endpoint,
        'operation', task.operation, 'plan', task.plan_id, 'attempt', task.attempt, 'error_code', task.error_code,
        'doing', case when task.finished_at is not null then format('It has ended as %s.', task.status)
                      when task.leased_until is not null then format('It runs, run %s.', task.attempt) else 'It waits for an executor.' end)
    from ferryman.ingest_task as task
    where task.id = explained_ingest.id
    union all
    select jsonb_build_object(
        'domain', 'ingest_slice', 'id', slice.id, 'tenant', slice.tenant, 'name', slice.source, 'state', slice.status, 'plan', slice.plan_id,
        'doing', case slice.status when 'PENDING' then 'It waits for a task to be made of it.' else format('It has ended as %s.', slice.status) end)
    from ferryman.ingest_slice as slice
    where slice.id = explained_ingest.id and not exists (select from ferryman.ingest_task as task where task.id = slice.id)
    union all
    select jsonb_build_object(
        'domain', 'ingest_run', 'id', run.id, 'tenant', run.tenant, 'state', run.status, 'task', run.task_id, 'attempt', run.attempt,
        'doing', case when run.finished_at is not null then format('It has ended as %s.', run.status)
                      else format('It runs: %s batches are done.', (select count(*) from ferryman.ingest_batch as batch
                                                                    where batch.run_id = run.id and batch.status = 'SUCCEEDED')) end)
    from ferryman.ingest_run as run
    where run.id = explained_ingest.id
    union all
    select jsonb_build_object(
        'domain', 'ingest_batch', 'id', batch.id, 'tenant', batch.tenant, 'state', batch.status, 'run', batch.run_id, 'task', batch.task_id,
        'doing', case batch.status when 'RUNNING' then format('It is being fetched and written, from %s.', batch.before_token)
                                   else format('It has ended as %s.', batch.status) end)
    from ferryman.ingest_batch as batch
    where batch.id = explained_ingest.id
$$;

-- What keeps a source from being asked: the breaker for all its endpoints, and the gate before one.
create function ferryman.shut(tenant text, source text, endpoint text) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select 'breaker_open', format('The circuit breaker of %s is open until %s, after %s failed requests in a row.', known.source,
                                  ferryman.spelled(known.open_until), known.failures),
           known.open_until, jsonb_build_object('source', known.source, 'failures', known.failures)
    from ferryman.ingest_source as known
    where known.tenant = shut.tenant and known.source = shut.source and known.open_until > ferryman.clock()
    union all
    select 'gate_closed', format('%s said that nobody may ask %s before %s.', gate.source, gate.endpoint, ferryman.spelled(gate.closed_until)),
           gate.closed_until, jsonb_build_object('source', gate.source, 'endpoint', gate.endpoint, 'last_status', gate.last_status)
    from ferryman.ingest_gate as gate
    where gate.source = shut.source and gate.endpoint = shut.endpoint and gate.closed_until > ferryman.clock()
    union all
    select 'quota_spent', format('%s has no request left for %s before %s.', gate.source, gate.endpoint, ferryman.spelled(gate.quota_until)),
           gate.quota_until, jsonb_build_object('source', gate.source, 'endpoint', gate.endpoint)
    from ferryman.ingest_gate as gate
    where gate.source = shut.source and gate.endpoint = shut.endpoint and gate.quota_left = 0 and gate.quota_until > ferryman.clock()
$$;

create function ferryman.reasons_ingest_plans(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with owed as materialized (
        select slice.* from ferryman.ingest_slice as slice
        where slice.status = 'PENDING' and (slice.id = reasons_ingest_plans.id or slice.plan_id = reasons_ingest_plans.id)
        order by slice.slice_no
        limit 1
    ),
    line as materialized (
        select owed.source, ferryman.setting_of('ingest.queued_max', 50) as most,
               (select count(*) from ferryman.ingest_task as task
                where task.tenant = owed.tenant and task.source = owed.source and task.rank is not null) as queued
        from owed
    )
    select 'inventory_full', format('%s tasks of %s wait, as many as may: the rest is derived when there is room.', line.queued, line.source),
           null::timestamptz, jsonb_build_object('queued', line.queued, 'queued_max', line.most)
    from line
    where line.queued >= line.most
    union all
    select 'due', format('There is room in the line of %s: I3-derive makes tasks at its next look.', line.source), null, '{}'
    from line
    where line.queued < line.most
    union all
    (select 'waiting_for_task', format('The task %s is %s.', task.id, task.status), task.ends_at, jsonb_build_object('task', task.id, 'status', task.status)
    from ferryman.ingest_task as task
    where task.plan_id = reasons_ingest_plans.id and task.finished_at is null
    order by task.leased_until is null, task.rank, task.id
    limit 20)
    union all
    select 'resliced', format('%s slices stand in its place.', cardinality(slice.resliced_by)), null, jsonb_build_object('slices', slice.resliced_by)
    from ferryman.ingest_slice as slice
    where slice.id = reasons_ingest_plans.id and cardinality(slice.resliced_by) > 0
    union all
    select 'ended', format('It ended as FAILED at %s%s.', ferryman.spelled(slice.updated_at), ': ' || rtrim(slice.reason, '.')), null, '{}'
    from ferryman.ingest_slice as slice
    where slice.id = reasons_ingest_plans.id and slice.status = 'FAILED'
$$;

create function ferryman.reasons_ingest_tasks(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with task as materialized (
        select each.*, each.source || '/' || each.endpoint as place from ferryman.ingest_task as each where each.id = reasons_ingest_tasks.id
    ),
    waiting as materialized (
        select task.*, (select count(*) from ferryman.living('sources', null)) as alive,
               (select count(*) from ferryman.living('sources', task.place) as worker where worker.knows) as know,
               ferryman.setting_of('ingest.partition_concurrency', 4) as slots,
               (select count(*) from ferryman.ingest_task as other
                where other.tenant = task.tenant and other.source = task.source and other.endpoint = task.endpoint
                  and other.operation = task.operation and other.leased_until is not null) as running
        from task
        where task.rank is not null
    )
    select case when waiting.error_code is null then 'not_due' else 'backing_off' end,
           case when waiting.error_code is null then format('It is due at %s.', ferryman.spelled(waiting.scheduled_at))
                else format('Run %s ended with %s; the next may begin at %s.', waiting.attempt, waiting.error_code, ferryman.spelled(waiting.scheduled_at)) end,
           waiting.scheduled_at, jsonb_strip_nulls(jsonb_build_object('error_code', waiting.error_code, 'error_reason', waiting.error_reason))
    from waiting
    where waiting.scheduled_at > ferryman.clock()
    union all
    select closed.code, closed.says, closed.until, closed.about
    from task
    cross join lateral ferryman.shut(task.tenant, task.source, task.endpoint) as closed
    where task.finished_at is null
    union all
    select 'no_worker', 'No worker is alive.', null, '{}'
    from waiting
    where waiting.alive = 0
    union all
    select 'source_unknown', format('No living worker has the source %s with the endpoint %s.', waiting.source, waiting.endpoint), null,
           jsonb_build_object('source', waiting.source, 'endpoint', waiting.endpoint, 'workers', waiting.alive)
    from waiting
    where waiting.alive > 0 and waiting.know = 0
    union all
    select 'partition_full', format('%s of %s, %s, %s run, as many as may.', waiting.running, waiting.source, waiting.endpoint, waiting.operation), null,
           jsonb_build_object('running', waiting.running, 'partition_concurrency', waiting.slots)
    from waiting
    where waiting.running >= waiting.slots
    union all
    select 'in_line', format('It can be claimed: %s stand before it in the line of %s, and %s living workers know the source.',
                             before.count, waiting.source, waiting.know),
           null, jsonb_build_object('ahead', before.count, 'workers', waiting.know)
    from waiting
    cross join lateral (
        select count(*) as count from ferryman.ingest_task as other
        where other.tenant = waiting.tenant and other.source = waiting.source and (other.rank, other.id) < (waiting.rank, waiting.id)
    ) as before
    where waiting.know > 0 and waiting.running < waiting.slots and waiting.scheduled_at <= ferryman.clock()
      and not exists (select from ferryman.shut(waiting.tenant, waiting.source, waiting.endpoint) as closed where closed.code = 'breaker_open')
    union all
    select holder.code, holder.says, holder.until, holder.about
    from (
        select task.lease_owner, task.claimed_at as since, task.leased_until from task
        union all
        select run.lease_owner, run.started_at, run.leased_until from ferryman.ingest_run as run where run.id = reasons_ingest_tasks.id
    ) as claim
    cross join lateral ferryman.held(claim.lease_owner, claim.since, claim.leased_until,
                                     ' When the lease has ended its run fails and the task goes back into the line.') as holder
    where claim.leased_until is not null
    union all
    select 'undecided', 'The planner has still to decide about what it left undone: I10 does at its next look.', null, '{}'
    from task
    where task.status = 'PARTIAL' and task.decision is null
    union all
    select 'ended', format('It ended as %s at %s%s.', ended.status, ferryman.spelled(ended.at), ': ' || rtrim(coalesce(ended.reason, ended.code), '.')),
           null, jsonb_build_object('ended_at', ended.at, 'error_code', ended.code)
    from (
        select status, finished_at as at, error_code as code, error_reason as reason from task
        union all
        select run.status, run.finished_at, run.error_code, run.error_reason from ferryman.ingest_run as run where run.id = reasons_ingest_tasks.id
        union all
        select batch.status, batch.updated_at, null, batch.error_reason
        from ferryman.ingest_batch as batch where batch.id = reasons_ingest_tasks.id and batch.status <> 'RUNNING'
    ) as ended
    where ended.at is not null
$$;

-- Whether somebody watches: without that nothing that hangs is ended. What reaps waits out the time after an outage.
create or replace function ferryman.reasons_watchdog(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select 'watchdog_silent', format('No watchdog has ticked since %s: nobody ends what hangs.', ferryman.spelled(dog.ticked_at)),
           null::timestamptz, jsonb_build_object('ticked_at', dog.ticked_at)
    from ferryman.watchdog as dog
    where dog.ticked_at < clock_timestamp() - ferryman.slack()
      and exists (select from ferryman.bounds as bound where bound.id = reasons_watchdog.id)
    union all
    select 'grace', format('After an outage no lease is judged before %s.', ferryman.spelled(dog.grace_until)), dog.grace_until, '{}'
    from ferryman.watchdog as dog
    where dog.grace_until > clock_timestamp()
      and exists (select from ferryman.bounds as bound
                  where bound.id = reasons_watchdog.id and bound.rule in ('W13', 'W1', 'W6', 'W7', 'W15'))
$$;
