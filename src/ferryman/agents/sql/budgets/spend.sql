-- A reservation becomes what was really used; one that is not there (or was used before) is not counted again.
with freed as (
    delete from ferryman.budget_reservations
    where tenant = :tenant
      and budget_id = :id
      and agent_turn_id = :turn
      and name = :name
    returning tenant, budget_id
)
update ferryman.budgets as budget
set tokens_spent = budget.tokens_spent + :tokens::bigint, tool_calls_spent = budget.tool_calls_spent + :tool_calls::bigint,
    cost_spent = budget.cost_spent + :cost::float8::numeric, updated_at = ferryman.clock()
from freed
where budget.tenant = freed.tenant
  and budget.id = freed.budget_id
returning budget.id
