-- After the lock, in a statement of its own: it sees what those before it have reserved. A repeat takes nothing more.
with word as materialized (
    select :tenant::text as tenant, :id::uuid as id, :turn::uuid as turn, :name::text as name, :tokens::bigint as tokens,
           :tool_calls::bigint as tool_calls, :cost::float8::numeric as cost
),
room as materialized (
    select word.*
    from word
    join ferryman.budgets as budget on budget.tenant = word.tenant and budget.id = word.id
    cross join lateral (
        select coalesce(sum(reserved.tokens), 0) as tokens, coalesce(sum(reserved.tool_calls), 0) as tool_calls,
               coalesce(sum(reserved.cost), 0) as cost
        from ferryman.budget_reservations as reserved
        where reserved.tenant = word.tenant
          and reserved.budget_id = word.id
          and (reserved.agent_turn_id, reserved.name) <> (word.turn, word.name)
    ) as taken
    where (budget.tokens_limit is null or budget.tokens_spent + taken.tokens + word.tokens <= budget.tokens_limit)
      and (budget.tool_calls_limit is null
           or budget.tool_calls_spent + taken.tool_calls + word.tool_calls <= budget.tool_calls_limit)
      and (budget.cost_limit is null or budget.cost_spent + taken.cost + word.cost <= budget.cost_limit)
)
insert into ferryman.budget_reservations (tenant, budget_id, agent_turn_id, name, created_at, tokens, tool_calls, cost)
select room.tenant, room.id, room.turn, room.name, ferryman.clock(), room.tokens, room.tool_calls, room.cost
from room
on conflict (tenant, agent_turn_id, budget_id, name) do update
set tokens = excluded.tokens, tool_calls = excluded.tool_calls, cost = excluded.cost
returning budget_id
