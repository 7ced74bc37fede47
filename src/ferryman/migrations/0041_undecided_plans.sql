-- K22: a plan is not over while the planner has yet to say what becomes of the rest of a slice that ended in part (I10); nobody is
-- to plan its window again for that. What nobody has said before the end of the task is not said any more.

create function ferryman.is_undecided(task ferryman.ingest_task) returns boolean
language sql stable as $$
    select task.status = 'PARTIAL' and task.decision is null and task.ends_at > ferryman.clock()
$$;

comment on function ferryman.is_undecided(ferryman.ingest_task) is 'Whether a task ended with something left, about which the planner has yet to decide.';

create or replace function ferryman.told_plan(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'slices', part.slices, 'pending', part.pending, 'open', part.open, 'done', part.done, 'resliced', part.resliced,
        'failed', part.slices - part.pending - part.open - part.done - part.resliced,
        'covered', case when plan.upper is null or plan.upper = plan.lower then part.done::float8 / greatest(part.slices, 1)
                        else coalesce(part.covered, 0) / (plan.upper - plan.lower)::float8 end)
    from ferryman.ingest_plan as plan
    cross join lateral (
        select count(*) as slices,
               count(*) filter (where slice.status = 'PENDING') as pending,
               count(*) filter (where task.finished_at is null and task.id is not null or ferryman.is_undecided(task)) as open,
               count(*) filter (where task.status = 'SUCCEEDED') as done,
               count(*) filter (where cardinality(slice.resliced_by) > 0 and task.status is distinct from 'SUCCEEDED') as resliced,
               (select sum(upper(span) - lower(span))
                from unnest(range_agg(int8range(slice.lower, slice.covered)) filter (where slice.covered is not null)) as span
               )::float8 as covered
        from ferryman.ingest_slice as slice
        left join ferryman.ingest_task as task on task.slice_id = slice.id
        where slice.plan_id = plan.id
    ) as part
    where plan.id = told_plan.id
$$;

create or replace function ferryman.reasons_ingest_plans(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
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
    ),
    over as materialized (
        select plan.source, plan.endpoint, plan.operation, plan.status, plan.finished_at, part.slices, part.done, part.failed, part.resliced, part.covered
        from ferryman.ingest_plan as plan
        cross join lateral jsonb_to_record(ferryman.told_plan(plan.id)) as part (
            slices bigint, pending bigint, open bigint, done bigint, failed bigint, resliced bigint, covered float8)
        where plan.id = reasons_ingest_plans.id and plan.finished_at is not null and part.open = 0 and part.pending = 0
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
    where task.plan_id = reasons_ingest_plans.id and (task.finished_at is null or ferryman.is_undecided(task))
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
    union all
    select 'fetched', format('Everything was fetched%s. There is nothing to do.', case when over.resliced > 0 then
                                 format(', after %s of its slices had been cut smaller', over.resliced) else '' end),
           null, jsonb_build_object('done', over.done, 'resliced', over.resliced, 'slices', over.slices)
    from over
    where over.slices > 0 and over.failed = 0
    union all
    select 'unfetched',
           format('%s of its %s slices were not fetched, and %s of its window was. %s', over.failed, over.slices, ferryman.spelled_share(over.covered),
                  case over.operation
                      when 'HARVEST' then format('The next harvest of %s begins at the gap: plan it again, or wait for its schedule.', over.source)
                      else 'Mend the cause and plan the same window again: it gets another try.' end),
           null, jsonb_build_object('failed', over.failed, 'slices', over.slices, 'covered', over.covered)
    from over
    where over.failed > 0
    union all
    (select 'slice_failed', format('Slice %s (%s) %s%s.', slice.slice_no, slice.id,
                                   case when task.id is null then 'never had a task' else 'ended as ' || task.status end,
                                   ': ' || rtrim(coalesce(task.error_reason, task.error_code, slice.reason), '.')),
            null, jsonb_build_object('slice', slice.id, 'task', task.id, 'status', coalesce(task.status, slice.status), 'error_code', task.error_code)
    from over
    join ferryman.ingest_slice as slice on slice.plan_id = reasons_ingest_plans.id
    left join ferryman.ingest_task as task on task.slice_id = slice.id
    where over.failed > 0 and task.status is distinct from 'SUCCEEDED' and coalesce(cardinality(slice.resliced_by), 0) = 0
    order by slice.slice_no
    limit 5)
    union all
    select 'empty', format('Nothing was made of it: it ended as %s at %s. Plan the window again.', over.status, ferryman.spelled(over.finished_at)), null, '{}'
    from over
    where over.slices = 0
$$;
