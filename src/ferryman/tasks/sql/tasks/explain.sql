-- Why something does not run: by its id, or by the name its creator gave it. What belongs to another tenant is not there.
select told.it::text as told
from (
    select ferryman.explain(coalesce(ferryman.named(:tenant, :task_id), :id::uuid)) as it
) as told
where told.it ->> 'tenant' = :tenant
