-- K21: each domain says what ends its own rows, in a view of its own; `bounds` and `overdue` put them together. A domain that
-- comes later brings its two views and calls `unite_bounds`.

-- What should have been acted on before this is late. After an outage nothing is late before the grace period and one sweep
-- are over. Grace is wall time.
create function ferryman.late_before() returns timestamptz
language sql stable as $$
    select case when watchdog.grace_until < clock_timestamp() - ferryman.slack()
                then ferryman.clock() - ferryman.slack()
                else '-infinity' end
    from ferryman.watchdog
$$;

create view ferryman.bounds_tasks as
select 'task'::text as domain, task.id, task.tenant, task.state, 'W13'::text as rule, task.leased_until as ends_by,
       task.ends_at + task.timeout_ms * interval '1 ms' + interval '5 s' + ferryman.slack() as terminal_by
from ferryman.tasks as task
where task.leased_until is not null
union all
select 'task', task.id, task.tenant, task.state, 'T21', task.ends_at,
       task.ends_at + task.timeout_ms * interval '1 ms' + interval '5 s' + ferryman.slack()
from ferryman.tasks as task
where task.finished_at is null
  and task.leased_until is null
union all
select 'schedule', schedule.id, schedule.tenant, schedule.state, 'T10', schedule.next_run_at, schedule.ends_at
from ferryman.schedules as schedule
where schedule.next_run_at is not null;

comment on view ferryman.bounds_tasks is 'Every live task and schedule, the rule that ends it, and by when.';

create view ferryman.overdue_tasks as
with edge as materialized (
    -- A range with two ends below: the planner takes one with one end for a third of the table, and would rather read it whole.
    select ferryman.late_before() as late_before
)
select 'task'::text as domain, task.id, task.tenant, task.state, 'W13'::text as rule, task.leased_until as ends_by
from ferryman.tasks as task
where task.leased_until > '-infinity'
  and task.leased_until < (select late_before from edge)
union all
select 'task', task.id, task.tenant, task.state, 'T21', task.ends_at
from ferryman.tasks as task
where task.ends_at > '-infinity'
  and task.ends_at < (select late_before from edge)
  and task.finished_at is null
  and task.leased_until is null
union all
select 'task', task.id, task.tenant, task.state, 'T1', task.wake_at
from ferryman.tasks as task
where task.wake_at > '-infinity'
  and task.wake_at < (select late_before from edge)
union all
select 'schedule', schedule.id, schedule.tenant, schedule.state, 'T10', schedule.next_run_at
from ferryman.schedules as schedule
where schedule.next_run_at > '-infinity'
  and schedule.next_run_at < (select late_before from edge);

comment on view ferryman.overdue_tasks is 'Live tasks and schedules past the time by which a rule should have acted on them.';

-- Make `bounds` and `overdue` the unions of the views of all domains that are there by now, whichever came first.
create function ferryman.unite_bounds() returns void
language plpgsql as $$
declare
    home oid := (select relnamespace from pg_class where oid = 'ferryman.watchdog'::regclass);
    whole record;
begin
    for whole in
        select kind.name,
               string_agg(format('select %s from %s', kind.columns, part.oid::regclass), ' union all ' order by part.relname)
                   as query
        from (values ('bounds', 'domain, id, tenant, state, rule, ends_by, terminal_by'),
                     ('overdue', 'domain, id, tenant, state, rule, ends_by')) as kind (name, columns)
        join pg_class as part
            on part.relnamespace = home and part.relkind = 'v' and starts_with(part.relname, kind.name || '_')
        group by kind.name
    loop
        execute format('create or replace view %s.%I as %s', home::regnamespace, whole.name, whole.query);
    end loop;
end
$$;

select ferryman.unite_bounds();
