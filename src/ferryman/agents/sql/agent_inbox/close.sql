-- queued -> skipped, pending -> skipped, queued | pending | processing -> error
-- A turn that no head holds ends: cancelled, merged away, malformed, forgotten. It has its end like any other (A13): a
-- deliverable, if it has a box, and its event. A message that is no turn is only put aside.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:ends::jsonb) as given (
            tenant text, id uuid, expects text, to_status text, status text, code text, error text, card uuid, content jsonb,
            merged_into uuid)
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
held as materialized (
    select message.tenant, message.id, word.to_status, word.status, word.code, word.error, word.card, word.content,
           word.merged_into,
           message.message_type in ('turn', 'ui_action') and message.agent_turn_id is not distinct from message.id as is_turn
    from word
    join ferryman.agent_inbox as message on message.id = word.id
    where message.tenant = word.tenant
      and message.archived_at is null
      and message.status = any(string_to_array(word.expects, ','))
      and not exists (select from ferryman.agent_state_head as head
                      where head.active_agent_turn_id = message.agent_turn_id)
    order by message.tenant, message.id
    for update of message
),
closed as (
    update ferryman.agent_inbox as message
    set status = held.to_status, archived_at = clock.now, pending_at = null, processed_at = null,
        merged_into = held.merged_into, error_code = held.code, error = held.error,
        watchdog_error = held.code, watchdog_at = clock.now,
        ended_at = case when held.is_turn then clock.now end,
        turn_status = case when held.is_turn then held.status end,
        deliverable_card_id = case when held.is_turn and message.output_box_id is not null then held.card end
    from clock, held
    where message.id = held.id
    returning message.tenant, message.id, message.agent_id, message.channel_id, message.output_box_id, message.turn_epoch,
              message.deliverable_card_id, message.callback, message.callback_ref, held.is_turn, held.status, held.code,
              held.error, held.card, held.content
),
written as (
    insert into ferryman.cards (tenant, id, created_at, agent_turn_id, type, role, author_id, content, metadata)
    select closed.tenant, closed.card, clock.now, closed.id, 'task.deliverable', 'assistant', closed.agent_id, closed.content,
           '{"fallback": true}'::jsonb
    from closed, clock
    where closed.deliverable_card_id is not null
),
boxed as (
    update ferryman.boxes as box
    set card_ids = box.card_ids || closed.card, updated_at = clock.now
    from clock, closed
    where closed.deliverable_card_id is not null
      and box.id = closed.output_box_id
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name, reason_code, reason_message, data)
    select clock.now, closed.id, closed.tenant, 'agent.task', closed.status, closed.agent_id, closed.code, closed.error,
           jsonb_strip_nulls(jsonb_build_object(
               'channel', closed.channel_id, 'output_box_id', closed.output_box_id,
               'deliverable_card_id', closed.deliverable_card_id))
    from closed, clock
    where closed.is_turn
)
select id, tenant, agent_id, turn_epoch, null::text as was, status, code, error, output_box_id, deliverable_card_id,
       null::uuid as tool_result_card_id, callback, callback_ref, is_turn as moved
from closed
