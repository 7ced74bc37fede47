-- Cards by their ids.
select card.id, card.type, card.role, card.author_id, card.agent_turn_id, card.step_id, card.tool_call_id, card.content,
       card.metadata, card.created_at
from unnest((select :ids::uuid[])) with ordinality as given (id, nth)
join ferryman.cards as card on card.id = given.id and card.tenant = :tenant
order by given.nth
