-- What orders met: the turn that is there, and in which fields it differs from what is asked for now (K11).
with word as materialized (
    select given.*
    from jsonb_to_recordset(:orders::jsonb) as given (
        place integer, tenant text, turn uuid, agent_id text, message_type text, channel text, context_box uuid,
        instruction jsonb, payload jsonb, wall_ms bigint, budget uuid, allows jsonb, result_fields jsonb, unsaid text[])
    limit (select 1000000)
)
select word.place, record.turn_epoch,
       array_remove(array[
           case when record.agent_id <> word.agent_id then 'agent_id' end,
           case when record.message_type <> word.message_type then 'message_type' end,
           case when record.channel_id is distinct from word.channel then 'channel' end,
           case when record.context_box_id <> word.context_box then 'context_box' end,
           case when word.context_box is null and asked.content is distinct from word.instruction then 'instruction' end,
           case when record.payload <> coalesce(word.payload, '{}') then 'payload' end,
           case when not word.unsaid @> '{wall_time}' and record.wall_ms is distinct from word.wall_ms then 'wall_time' end,
           case when not word.unsaid @> '{budget}'
                     and (record.budget_id is distinct from word.budget
                          or word.allows is not null
                             and (budget.tokens_limit is distinct from (word.allows ->> 'tokens')::bigint
                                  or budget.tool_calls_limit is distinct from (word.allows ->> 'tool_calls')::bigint
                                  or budget.cost_limit is distinct from (word.allows ->> 'cost')::float8::numeric))
                then 'budget' end,
           case when word.result_fields is not null
                     and coalesce(required.content, '[]') <> word.result_fields
                then 'result_fields' end
       ], null) as differs
from word
join ferryman.agent_inbox as record on record.id = word.turn
left join ferryman.boxes as box on box.id = record.context_box_id
left join lateral (
    -- Of the cards that the turn was given, the one that says what it was asked for by this message, and by no other.
    select card.content
    from unnest(box.card_ids) as listed (id)
    join ferryman.cards as card on card.id = listed.id
    where card.agent_turn_id = word.turn
      and card.type = 'task.instruction'
) as asked on true
left join lateral (
    select card.content
    from unnest(box.card_ids) as listed (id)
    join ferryman.cards as card on card.id = listed.id
    where card.agent_turn_id = word.turn
      and card.type = 'task.result_fields'
) as required on true
left join ferryman.budgets as budget on budget.tenant = record.tenant and budget.id = record.budget_id
where record.tenant = word.tenant
