-- The table is as new as the release that brings both: there is nothing in it whose writing could be held up.
-- squawk-ignore-file require-concurrent-index-creation

-- The turns of an agent, newest first: what people ask for. None of its columns changes in a turn's life.
create index agent_inbox_turns on ferryman.agent_inbox (tenant, agent_id, created_at) where agent_turn_id = id;

-- What a turn is doing (K22).
create function ferryman.explained_turns(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'turn', 'id', message.id, 'tenant', message.tenant, 'name', message.agent_id, 'agent_id', message.agent_id,
        'state', coalesce(message.turn_status, head.status, message.status), 'turn_epoch', head.turn_epoch,
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
$$;

-- Why a turn does not run.
create function ferryman.reasons_turns(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with head as materialized (
        select each.* from ferryman.agent_state_head as each where each.active_agent_turn_id = reasons_turns.id
    ),
    message as materialized (
        select each.*
        from ferryman.agent_inbox as each
        where each.id = reasons_turns.id and each.archived_at is null and each.status = 'queued'
    )
    select 'waiting_for_call',
           format('It waits for %s (%s) until %s%s.', waited.tool_name, waited.tool_call_id, ferryman.spelled(waited.deadline_at),
                  case when waited.task_id is null then '; somebody outside answers' else format('; the task %s does it', waited.task_id) end),
           waited.deadline_at,
           jsonb_strip_nulls(jsonb_build_object('tool', waited.tool_name, 'tool_call_id', waited.tool_call_id, 'task', waited.task_id))
    from head
    join ferryman.turn_waiting_tools as waited on waited.tenant = head.tenant and waited.agent_turn_id = head.active_agent_turn_id
    where waited.wait_status = 'waiting'
    union all
    select 'agent_busy', format('Its agent %s is doing the turn %s.', busy.agent_id, busy.active_agent_turn_id), null,
           jsonb_build_object('turn', busy.active_agent_turn_id, 'status', busy.status)
    from message
    join ferryman.agent_state_head as busy on busy.tenant = message.tenant and busy.agent_id = message.agent_id
    where busy.active_agent_turn_id is not null
    union all
    select 'no_workers', 'No worker is alive.', null, '{}'
    from head
    where head.ready_at is not null
      and not exists (select from ferryman.workers as worker where worker.seen_until > ferryman.clock())
    union all
    select 'in_line', format('Any worker that knows the profile %s and serves the target %s takes it.', head.profile, head.worker_target),
           null, jsonb_build_object('profile', head.profile, 'target', head.worker_target)
    from head
    where head.ready_at is not null
$$;
