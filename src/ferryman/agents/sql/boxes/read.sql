-- The cards of some boxes, in order.
select box.id as box_id, card.id, card.type, card.role, card.author_id, card.agent_turn_id, card.step_id, card.tool_call_id,
       card.content, card.metadata, card.created_at
from (
    select given.tenant, given.id
    from unnest((select :tenants::text[]), (select :ids::uuid[])) as given (tenant, id)
    limit (select 1000000)
) as given
join ferryman.boxes as box on box.id = given.id and box.tenant = given.tenant
cross join lateral (select id, nth from unnest(box.card_ids) with ordinality as listed (id, nth) limit (select 1000000)) as listed
join ferryman.cards as card on card.id = listed.id and card.tenant = box.tenant
order by box.id, listed.nth
