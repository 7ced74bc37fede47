-- What the budget of a turn allows, what was spent of it, and what is reserved at the moment.
select budget.id, budget.tokens_limit, budget.tokens_spent, budget.tool_calls_limit, budget.tool_calls_spent, budget.cost_limit,
       budget.cost_spent, held.tokens as tokens_held, held.tool_calls as tool_calls_held, held.cost as cost_held
from ferryman.agent_inbox as message
join ferryman.budgets as budget on budget.tenant = message.tenant and budget.id = message.budget_id
cross join lateral (
    select coalesce(sum(reserved.tokens), 0)::bigint as tokens, coalesce(sum(reserved.tool_calls), 0)::bigint as tool_calls,
           coalesce(sum(reserved.cost), 0) as cost
    from ferryman.budget_reservations as reserved
    where reserved.tenant = budget.tenant
      and reserved.budget_id = budget.id
) as held
where message.id = :turn
  and message.tenant = :tenant
