-- K21: what ends each live row, and by when.
create function ferryman.agents_setting(key text, otherwise float8) returns interval
language sql stable as $$
    select make_interval(secs => coalesce((select value::text::float8 from ferryman.settings where name = key), otherwise))
$$;

create view ferryman.bounds_agents as
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
       message.ends_at, message.ends_at + 2 * ferryman.slack()
from ferryman.agent_inbox as message
where message.archived_at is null
union all
select 'wait', waiting.agent_turn_id, waiting.tenant, waiting.wait_status, 'W2', waiting.deadline_at,
       waiting.ends_at + 2 * ferryman.slack()
from ferryman.turn_waiting_tools as waiting
where waiting.wait_status = 'waiting';

comment on view ferryman.bounds_agents is 'Every turn, message and waited-for call that is live, the rule that ends it, and by when.';

create view ferryman.overdue_agents as
with edge as materialized (
    select ferryman.late_before() as late_before
)
select 'agent'::text as domain, head.active_agent_turn_id as id, head.tenant, head.status as state, 'W6'::text as rule,
       head.dispatch_deadline as ends_by
from ferryman.agent_state_head as head
where head.ready_at > '-infinity'
  and head.dispatch_deadline < (select late_before from edge)
union all
select 'agent', head.active_agent_turn_id, head.tenant, head.status, 'W7', head.leased_until
from ferryman.agent_state_head as head
where head.leased_until > '-infinity'
  and head.leased_until < (select late_before from edge) - ferryman.agents_setting('pmo.active_reap_seconds', 300)
union all
select 'agent', head.active_agent_turn_id, head.tenant, head.status, 'W2', head.resume_deadline
from ferryman.agent_state_head as head
where head.resume_deadline > '-infinity'
  and head.resume_deadline < (select late_before from edge)
union all
select 'wait', waiting.agent_turn_id, waiting.tenant, waiting.wait_status, 'W2', waiting.deadline_at
from ferryman.turn_waiting_tools as waiting
where waiting.wait_status = 'waiting'
  and waiting.deadline_at > '-infinity'
  and waiting.deadline_at < (select late_before from edge)
union all
select 'message', message.id, message.tenant, message.status, 'A3', message.ends_at
from ferryman.agent_inbox as message
where message.archived_at is null
  and message.look_at > '-infinity'
  and message.look_at < (select late_before from edge)
  and message.ends_at < (select late_before from edge);

comment on view ferryman.overdue_agents is 'Live turns, messages and calls past the time by which a rule should have acted on them.';

select ferryman.unite_bounds();
