-- The birth of a plan; none if its key has made one.
with clock as materialized (
    select ferryman.clock() as now
),
made as (
    insert into ferryman.ingest_plan (
        id, schedule_instance_id, cursor_id, window_from, window_to, lower, upper, ends_at, created_at, updated_at, tenant,
        plan_key, source, endpoint, operation, strategy, status, expr_hash, campaign, expression, params, config, budget)
    select :id, :schedule_instance_id, :cursor_id, :window_from, :window_to, :lower, :upper, clock.now + :ends_after::interval,
           clock.now, clock.now, :tenant, :plan_key, :source, :endpoint, :operation, :strategy, 'DRAFT', :expr_hash, :campaign,
           :expression::jsonb, :params::jsonb, :config::jsonb, :budget::jsonb
    from clock
    on conflict (tenant, plan_key) do nothing
    returning id, tenant, source, created_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name)
    select made.created_at, made.id, made.tenant, 'ingest_plan', 'DRAFT', made.source
    from made
)
select id
from made
