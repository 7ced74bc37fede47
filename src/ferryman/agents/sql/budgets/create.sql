insert into ferryman.budgets (tenant, id, created_at, tokens_limit, tool_calls_limit, cost_limit)
values (:tenant, :id, ferryman.clock(), :tokens::bigint, :tool_calls::bigint, :cost::float8::numeric)
on conflict do nothing
returning id
