-- K21, W21: what ends each live row and by when, and a list of those that nothing has ended, which is always empty.
-- A later domain adds its branch to both views. Each branch reads one index, so that finished rows cost nothing.

-- How long past its time a row may stay before it is an alarm: as long as the watchdog may be silent before that counts as
-- an outage (K24), because a row is either swept by then or under grace.
create function ferryman.slack() returns interval
language sql stable as $$
    select 3 * make_interval(secs => coalesce(
        (select value::text::float8 from ferryman.settings where name = 'watchdog.interval_seconds'), 5))
$$;

-- ends_by: when the rule takes the row out of this state. terminal_by: when it has ended for good, whatever happens: what
-- waits is cancelled at its ends_at, and a try that began just before may use its time and the margin of its lease.
create view ferryman.bounds as
select 'task'::text as domain, task.id, task.tenant, task.state, 'W13'::text as rule, task.leased_until as ends_by,
       task.ends_at + task.timeout_ms * interval '1 ms' + interval '5 s' + ferryman.slack() as terminal_by
from ferryman.tasks as task
where task.leased_until is not null
union all
select 'task', task.id, task.tenant, task.state, 'T21', task.ends_at,
       task.ends_at + task.timeout_ms * interval '1 ms' + interval '5 s' + ferryman.slack()
from ferryman.tasks as task
where task.finished_at is null
  and task.leased_until is null;

comment on view ferryman.bounds is 'Every live object, the rule that ends it, and by when.';

create view ferryman.overdue as
with edge as materialized (
    -- After an outage nothing is late before the grace period and one sweep are over. Grace is wall time.
    select case when watchdog.grace_until < clock_timestamp() - ferryman.slack()
                then ferryman.clock() - ferryman.slack()
                else '-infinity' end as late_before
    from ferryman.watchdog
)
select 'task'::text as domain, task.id, task.tenant, task.state, 'W13'::text as rule, task.leased_until as ends_by
from ferryman.tasks as task
where task.leased_until < (select late_before from edge)
union all
select 'task', task.id, task.tenant, task.state, 'T21', task.ends_at
from ferryman.tasks as task
where task.ends_at < (select late_before from edge)
  and task.finished_at is null
  and task.leased_until is null
union all
select 'task', task.id, task.tenant, task.state, 'T1', task.wake_at
from ferryman.tasks as task
where task.wake_at < (select late_before from edge);

comment on view ferryman.overdue is 'Live objects past the time by which a rule should have acted on them; empty by invariant.';
