-- The cards of a box, in order, a page at a time; one empty row for a box without more, none where there is no box.
select card.id, card.type, card.role, card.author_id, card.agent_turn_id, card.step_id, card.tool_call_id, card.content,
       card.metadata, card.created_at
from ferryman.boxes as box
left join lateral (
    select listed.id, listed.nth
    from unnest(box.card_ids) with ordinality as listed (id, nth)
    where listed.nth > :after::bigint
    order by listed.nth
    limit :limit::bigint
) as listed on true
left join ferryman.cards as card on card.id = listed.id and card.tenant = box.tenant
where box.id = :box
  and box.tenant = :tenant
order by listed.nth
