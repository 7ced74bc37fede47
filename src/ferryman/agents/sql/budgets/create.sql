insert into ferryman.budgets (tenant, id, created_at, tokens_limit, tool_calls_limit, cost_limit)
select word.tenant, word.id, ferryman.clock(), word.tokens, word.tool_calls, word.cost::numeric
from unnest(:tenants::text[], :ids::uuid[], :tokens::bigint[], :tool_calls::bigint[], :costs::float8[])
     as word (tenant, id, tokens, tool_calls, cost)
order by word.tenant, word.id
on conflict do nothing
returning id
