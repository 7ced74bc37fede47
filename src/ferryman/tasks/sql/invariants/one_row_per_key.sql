select tenant, idempotency_key, idempotency_scope, count(*) as rows
from ferryman.tasks
where idempotency_key is not null
group by tenant, idempotency_key, idempotency_scope
having count(*) > 1
