-- What batches that were met were asked for beside their tasks: the channel, and whether all that they lead to may use as much
-- as is asked for now. A cost is compared as it is stored, with fifteen digits.
select word.place, batch.parent_channel_id,
       budget.tokens_limit is not distinct from word.tokens
       and budget.tool_calls_limit is not distinct from word.tool_calls
       and budget.cost_limit is not distinct from word.cost::numeric as allowed
from jsonb_to_recordset(:words::jsonb) as word (place integer, id uuid, tokens bigint, tool_calls bigint, cost float8)
join ferryman.pmo_batches as batch on batch.id = word.id
left join ferryman.budgets as budget on budget.tenant = batch.tenant and budget.id = batch.budget_id
