-- What is left of a budget; locked, so that two reservations cannot both have the last of it.
with held as materialized (
    select budget.*
    from ferryman.budgets as budget
    where budget.tenant = :tenant
      and budget.id = :id
    for update
)
select held.id, held.tokens_limit, held.tokens_spent, held.tool_calls_limit, held.tool_calls_spent, held.cost_limit, held.cost_spent
from held
