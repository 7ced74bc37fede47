-- K22 for agents: the functions that `explain` finds by their names, and one way to say what ends a thing, for all domains.

-- Whoever bears a name: names are the caller's, and each domain has its own.
create function ferryman.named(tenant text, name text) returns uuid
language sql stable as $$
    select coalesce(
        (select task.id from ferryman.tasks as task where task.tenant = named.tenant and task.task_id = named.name),
        (select schedule.id from ferryman.schedules as schedule
         where schedule.tenant = named.tenant and schedule.schedule_id = named.name and schedule.ended_at is null),
        (select agent.id from ferryman.agents as agent where agent.tenant = named.tenant and agent.agent_id = named.name))
$$;

comment on function ferryman.named is 'The task, schedule or agent of a tenant that bears this name.';

-- What a rule does about a live object, as a sentence with a place for the time.
create function ferryman.promise(rule text) returns text
language sql immutable parallel safe as $$
    select case promise.rule
        when 'W13' then 'W13 ends this attempt at %s unless its lease is renewed'
        when 'T21' then 'T21 cancels it at %s if it still waits then'
        when 'T10' then 'T10 fires it at %s'
        when 'W1' then 'W1 brings it back if its worker is gone, and A3 ends it at %s at the latest'
        when 'W2' then 'W2 answers what it waits for with a timeout at %s'
        when 'W6' then 'W6 ends it as timeout at %s unless a worker takes it in hand'
        when 'W7' then 'W7 ends it at %s unless its worker, or another, gives a sign of life'
        when 'W8' then 'W8 rings for it, and A3 ends it at %s at the latest'
        when 'A3' then 'A3 ends it as timeout at %s if it still waits in line then'
        when 'W10' then 'W10 ends it as timeout at %s'
        when 'W14' then 'W14 ends it as failed at %s'
        when 'W15' then 'W15 takes it from its worker at %s unless its lease is renewed'
        when 'I1' then 'I1 ends it with its last slice, at %s at the latest'
        when 'I3' then 'I3 ends it as FAILED at %s if it has no task by then'
        when 'I5' then 'I5 cancels it at %s if it still waits then'
        when 'K10-dead' then 'K10-dead makes it a dead letter at %s'
        else promise.rule || ' acts on it at %s' end
$$;

-- Of several clocks of one object the one of its head comes first, then that of its message, then those of its calls.
create function ferryman.ends(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'rule', bound.rule, 'ends_by', bound.ends_by, 'terminal_by', bound.terminal_by,
        'says', format(
            ferryman.promise(bound.rule) || case when bound.terminal_by is null then '.' else '; it has ended for good by %s.' end,
            ferryman.spelled(bound.ends_by), ferryman.spelled(bound.terminal_by)))
    from ferryman.bounds as bound
    where bound.id = ends.id
    order by case bound.domain when 'message' then 1 when 'wait' then 2 else 0 end, bound.ends_by
    limit 1
$$;

create or replace function ferryman.explain(id uuid) returns jsonb
language plpgsql stable as $$
declare
    asked constant uuid := id;
    told jsonb;
    more jsonb;
    reasons jsonb := '[]';
    asks regproc;
begin
    for asks in
        select known.oid from pg_proc as known
        where known.pronamespace = (select pronamespace from pg_proc where oid = 'ferryman.explain(uuid)'::regprocedure)
          and known.proname like 'explained\_%' and known.proargtypes = '2950'::oidvector
        order by known.proname
    loop
        execute format('select %s($1)', asks) into told using asked;
        exit when told is not null;
    end loop;
    if told is null then
        return null;
    end if;
    for asks in
        select known.oid from pg_proc as known
        where known.pronamespace = (select pronamespace from pg_proc where oid = 'ferryman.explain(uuid)'::regprocedure)
          and known.proname like 'reasons\_%' and known.proargtypes = '2950'::oidvector
        order by known.proname
    loop
        execute format(
            'select jsonb_agg(jsonb_build_object(''code'', code, ''says'', says, ''until'', until, ''about'', about)) from %s($1)', asks)
            into more using asked;
        reasons := reasons || coalesce(more, '[]');
    end loop;
    return told || jsonb_build_object('reasons', reasons, 'ends', ferryman.ends(asked));
end
$$;

-- Who holds something that was claimed, and whether that one is still heard of.
create function ferryman.held(owner uuid, since timestamptz, leased_until timestamptz, then_what text)
returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select 'leased',
           format('%s holds it%s; the lease ends at %s unless it is renewed.',
                  coalesce(format('Worker %s (pid %s)', worker.host, worker.pid), 'A worker that has gone'),
                  ' since ' || ferryman.spelled(held.since), ferryman.spelled(held.leased_until)),
           held.leased_until, jsonb_build_object('lease_owner', held.owner, 'host', worker.host, 'pid', worker.pid)
    from (select) as asked
    left join ferryman.workers as worker on worker.boot_id = held.owner
    where held.owner is not null
    union all
    select 'holder_silent',
           case when worker.boot_id is null then 'Its worker is gone.'
                else format('Its worker has not been heard of since %s.', ferryman.spelled(worker.seen_until)) end || held.then_what,
           greatest(held.leased_until, dog.grace_until), jsonb_build_object('seen_until', worker.seen_until)
    from ferryman.watchdog as dog
    left join ferryman.workers as worker on worker.boot_id = held.owner
    where held.owner is not null and coalesce(worker.seen_until < ferryman.clock(), true)
$$;

-- The living workers, and which of them say that they know something: a profile, a target, a source, a kind of callback.
-- A worker of a release that does not tell may know it.
create function ferryman.living(topic text, name text) returns table (boot_id uuid, knows boolean)
language sql stable as $$
    select worker.boot_id, living.name is null or coalesce(worker.settings -> living.topic ? living.name, true)
    from ferryman.workers as worker
    where worker.seen_until >= ferryman.clock()
$$;

-- Turns, and messages that are none.
create or replace function ferryman.explained_turns(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'turn', 'id', message.id, 'tenant', message.tenant, 'name', message.agent_id, 'agent_id', message.agent_id,
        'state', coalesce(message.turn_status, head.status, message.status), 'turn_epoch', head.turn_epoch,
        'channel', message.channel_id, 'error_code', message.error_code,
        'doing', case
            when message.turn_status is not null then format('It has ended as %s%s.', message.turn_status, ', ' || message.error_code)
            when head.status = 'running' and head.ready_at is null then 'It runs.'
            when head.status = 'running' then 'It was given up by its worker and waits for another.'
            when head.status = 'suspended' and head.waiting_tool_count = 0 then 'It has its results and waits for a worker.'
            when head.status = 'suspended' then format('It waits for %s.',
                case head.waiting_tool_count when 1 then 'one call' else head.waiting_tool_count || ' calls' end)
            when head.status = 'dispatched' then 'It waits for a worker.'
            when message.merged_into is not null then format('It goes along with the turn %s.', message.merged_into)
            else 'It waits for the turns before it.' end)
    from ferryman.agent_inbox as message
    left join ferryman.agent_state_head as head on head.active_agent_turn_id = message.id
    where message.id = explained_turns.id and message.agent_turn_id = message.id
    union all
    select jsonb_build_object(
        'domain', 'message', 'id', message.id, 'tenant', message.tenant, 'name', message.message_type, 'agent_id', message.agent_id,
        'state', message.status, 'turn', message.agent_turn_id,
        'doing', case message.status
            when 'queued' then 'It waits in line.' when 'pending' then 'It waits to be taken in hand.'
            when 'processing' then 'It is in hand.' else 'It has ended.' end)
    from ferryman.agent_inbox as message
    where message.id = explained_turns.id and message.agent_turn_id is distinct from message.id
$$;

-- What a turn waits for: each call with who does it.
create function ferryman.reasons_turns_calls(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select case when task.id is not null then 'waiting_for_tool' when child.id is not null then 'waiting_for_turn'
                when batch.id is not null then 'waiting_for_batch' else 'waiting_for_answer' end,
           format(case
               when task.id is not null then 'It waits for %1$s until %2$s; the task %3$s does it, which is %4$s.'
               when child.id is not null then 'It waits for %1$s until %2$s: the turn %3$s of %5$s, which is %4$s.'
               when batch.id is not null then 'It waits for %1$s until %2$s: the batch %3$s, of which %4$s of %5$s tasks are open.'
               else 'It waits for %1$s until %2$s; somebody outside answers the call %3$s.' end,
               waited.tool_name, ferryman.spelled(waited.deadline_at),
               coalesce(task.id::text, child.id::text, batch.id::text, waited.tool_call_id),
               coalesce(task.state, child.state, batch.open::text), coalesce(child.agent_id, batch.task_count::text)),
           waited.deadline_at,
           jsonb_strip_nulls(jsonb_build_object('tool', waited.tool_name, 'tool_call_id', waited.tool_call_id, 'task', task.id,
                                                'turn', child.id, 'batch', batch.id, 'state', coalesce(task.state, child.state)))
    from ferryman.agent_state_head as head
    join ferryman.turn_waiting_tools as waited on waited.agent_turn_id = head.active_agent_turn_id
    left join ferryman.tasks as task on task.id = waited.task_id
    left join lateral (
        select turn.id, turn.agent_id, coalesce(turn.turn_status, busy.status, turn.status) as state
        from ferryman.execution_edges as edge
        join ferryman.agent_inbox as turn on turn.id = edge.target_turn_id
        left join ferryman.agent_state_head as busy on busy.active_agent_turn_id = turn.id
        where edge.tenant = head.tenant and edge.source_turn_id = head.active_agent_turn_id
          and turn.callback = 'delegate' and turn.callback_ref = format('%s/%s/%s', waited.tenant, waited.agent_id, waited.tool_call_id)
        limit 1
    ) as child on task.id is null
    left join lateral (
        select forked.id, forked.task_count,
               (select count(*) from ferryman.pmo_batch_tasks as part where part.batch_id = forked.id and part.finished_at is null) as open
        from ferryman.pmo_batches as forked
        where forked.parent_agent_turn_id = head.active_agent_turn_id and forked.finished_at is null
          and forked.parent_tool_call_id = waited.tool_call_id
        limit 1
    ) as batch on task.id is null
    where head.active_agent_turn_id = reasons_turns_calls.id and waited.wait_status = 'waiting'
    order by waited.created_at, waited.tool_call_id
    limit 20
$$;

-- Why a turn does not run, beside its calls.
create or replace function ferryman.reasons_turns(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with head as materialized (
        select each.* from ferryman.agent_state_head as each where each.active_agent_turn_id = reasons_turns.id
    ),
    message as materialized (
        select each.* from ferryman.agent_inbox as each where each.id = reasons_turns.id and each.agent_turn_id = each.id
    ),
    queued as materialized (
        select message.* from message where message.status = 'queued' and message.merged_into is null
    )
    select 'agent_busy', format('Its agent %s is doing the turn %s, which is %s.', busy.agent_id, busy.active_agent_turn_id, busy.status),
           null::timestamptz, jsonb_build_object('turn', busy.active_agent_turn_id, 'status', busy.status)
    from queued
    join ferryman.agent_state_head as busy on busy.tenant = queued.tenant and busy.agent_id = queued.agent_id
    where busy.active_agent_turn_id is not null
    union all
    select 'turns_before', format('%s of its agent stand before it in line; the first is %s.', before.count, before.first), null,
           jsonb_build_object('ahead', before.count, 'first', before.first)
    from queued
    cross join lateral (
        select count(*) as count, (array_agg(other.id order by other.created_at, other.id))[1] as first
        from ferryman.agent_inbox as other
        where other.tenant = queued.tenant and other.agent_id = queued.agent_id and other.archived_at is null
          and other.status = 'queued' and other.merged_into is null and (other.created_at, other.id) < (queued.created_at, queued.id)
    ) as before
    where before.count > 0
    union all
    select 'not_dispatched', 'Its agent is at rest: W9 dispatches the next turn at its next look.', null, '{}'
    from queued
    join ferryman.agent_state_head as idle on idle.tenant = queued.tenant and idle.agent_id = queued.agent_id
    where idle.status = 'idle'
    union all
    select 'merged', format('It goes along with the turn %s and ends with it.', message.merged_into), null,
           jsonb_build_object('turn', message.merged_into)
    from message
    where message.status = 'queued' and message.merged_into is not null
    union all
    select holder.code, holder.says, holder.until, holder.about
    from head
    cross join lateral ferryman.held(head.lease_owner, head.started_at, head.leased_until,
                                     ' When the lease has ended another worker takes the turn over.') as holder
    where head.status = 'running' and head.ready_at is null
    union all
    select 'envelope_lost', format('Its envelope is not in the inbox: W5 puts it there again, and W6 ends it at %s.',
                                   ferryman.spelled(head.dispatch_deadline)), head.dispatch_deadline, '{}'
    from head
    where head.status = 'dispatched'
      and not exists (select from ferryman.agent_inbox as envelope
                      where envelope.id = head.active_inbox_id and envelope.status in ('pending', 'processing'))
    union all
    select 'stop_asked', format('A stop was asked for at %s (%s); the next look of a worker or a watchdog carries it out.',
                                ferryman.spelled(stop.created_at), coalesce(stop.payload ->> 'reason', 'nobody said why')),
           null, jsonb_build_object('message', stop.id)
    from message
    join ferryman.agent_inbox as stop on stop.tenant = message.tenant and stop.agent_id = message.agent_id
    where stop.archived_at is null and stop.message_type = 'stop' and stop.agent_turn_id = message.id
    union all
    select 'budget_spent', format('Its budget %s has nothing left of %s: what it asks for beyond that is refused.', budget.id, spent.of), null,
           jsonb_build_object('budget', budget.id, 'of', spent.of)
    from message
    join ferryman.budgets as budget on budget.tenant = message.tenant and budget.id = message.budget_id
    cross join lateral (
        select concat_ws(', ', case when budget.tokens_spent >= budget.tokens_limit then budget.tokens_limit || ' tokens' end,
                         case when budget.tool_calls_spent >= budget.tool_calls_limit then budget.tool_calls_limit || ' tool calls' end,
                         case when budget.cost_spent >= budget.cost_limit then budget.cost_limit || ' of cost' end) as of
    ) as spent
    where message.turn_status is null and spent.of <> ''
    union all
    select 'ended', format('It ended as %s at %s%s.', message.turn_status, ferryman.spelled(message.ended_at),
                           ': ' || rtrim(coalesce(message.error, message.error_code), '.')), null,
           jsonb_build_object('ended_at', message.ended_at, 'error_code', message.error_code,
                              'deliverable_card_id', message.deliverable_card_id)
    from message
    where message.turn_status is not null
$$;

-- Whether anybody would take a turn that could be taken in hand.
create function ferryman.reasons_turns_workers(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with head as materialized (
        select each.* from ferryman.agent_state_head as each
        where each.active_agent_turn_id = reasons_turns_workers.id and each.ready_at is not null
    ),
    seen as materialized (
        select (select count(*) from ferryman.living('profiles', null)) as alive,
               (select count(*) from ferryman.living('profiles', head.profile) as worker where worker.knows) as know,
               (select count(*) from ferryman.living('profiles', head.profile) as worker
                join ferryman.living('targets', head.worker_target) as served using (boot_id)
                where worker.knows and served.knows) as serve,
               (select count(*) from ferryman.living('profiles', head.profile) as worker
                join ferryman.living('targets', head.worker_target) as served using (boot_id)
                join ferryman.living('turn_callbacks', head.callback) as owing using (boot_id)
                where worker.knows and served.knows and owing.knows) as take
        from head
    )
    select 'no_worker', 'No worker is alive.', null::timestamptz, '{}'::jsonb
    from seen
    where seen.alive = 0
    union all
    select 'profile_unknown', format('No living worker knows its profile %s.', head.profile), null,
           jsonb_build_object('profile', head.profile, 'workers', seen.alive)
    from head, seen
    where seen.alive > 0 and seen.know = 0
    union all
    select 'target_not_served', format('No living worker that knows its profile %s serves the target %s.', head.profile, head.worker_target),
           null, jsonb_build_object('profile', head.profile, 'target', head.worker_target, 'workers', seen.know)
    from head, seen
    where seen.know > 0 and seen.serve = 0
    union all
    select 'callback_unknown', format('Its end is owed to an owner of kind %s, which no such worker knows.', head.callback), null,
           jsonb_build_object('callback', head.callback, 'workers', seen.serve)
    from head, seen
    where seen.serve > 0 and seen.take = 0
    union all
    select 'in_line',
           format('It can be taken in hand: %s.', case seen.take when 1 then 'one living worker would' else seen.take || ' living workers would' end),
           null, jsonb_build_object('profile', head.profile, 'target', head.worker_target, 'workers', seen.take)
    from head, seen
    where seen.take > 0
$$;

-- Agents are at rest or do one turn; they do not end.
create function ferryman.explained_agents(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'agent', 'id', agent.id, 'tenant', agent.tenant, 'name', agent.profile, 'agent_id', agent.agent_id,
        'state', head.status, 'turn', head.active_agent_turn_id, 'target', agent.worker_target,
        'doing', case when head.active_agent_turn_id is null then 'It is at rest.'
                      else format('It does the turn %s since %s.', head.active_agent_turn_id, ferryman.spelled(head.since_at)) end)
    from ferryman.agents as agent
    join ferryman.agent_state_head as head on head.id = agent.id
    where agent.id = explained_agents.id
$$;

create function ferryman.reasons_agents(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with head as materialized (
        select each.* from ferryman.agent_state_head as each where each.id = reasons_agents.id
    )
    select 'doing_turn', format('Its turn %s is %s; explain that one.', head.active_agent_turn_id, head.status), head.turn_deadline,
           jsonb_build_object('turn', head.active_agent_turn_id, 'status', head.status)
    from head
    where head.active_agent_turn_id is not null
    union all
    select 'turns_waiting', format('%s turns wait in its line; the next is %s.', line.count, line.first), null,
           jsonb_build_object('waiting', line.count, 'first', line.first)
    from head
    cross join lateral (
        select count(*) as count, (array_agg(message.id order by message.created_at, message.id))[1] as first
        from ferryman.agent_inbox as message
        where message.tenant = head.tenant and message.agent_id = head.agent_id and message.archived_at is null
          and message.status = 'queued' and message.merged_into is null
    ) as line
    where line.count > 0
    union all
    select 'no_worker', 'No worker is alive.', null, '{}'
    from head
    where not exists (select from ferryman.living('profiles', null))
    union all
    select 'profile_unknown', format('No living worker knows its profile %s.', head.profile), null, jsonb_build_object('profile', head.profile)
    from head
    where exists (select from ferryman.living('profiles', null))
      and not exists (select from ferryman.living('profiles', head.profile) as worker where worker.knows)
$$;
