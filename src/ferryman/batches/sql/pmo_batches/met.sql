-- What batches were asked for beside their tasks: the channel, and what all that they lead to may use.
select batch.id, batch.parent_channel_id, budget.tokens_limit, budget.tool_calls_limit, budget.cost_limit::float8
from unnest((select :ids::uuid[])) as given (id)
join ferryman.pmo_batches as batch on batch.id = given.id
left join ferryman.budgets as budget on budget.tenant = batch.tenant and budget.id = batch.budget_id
