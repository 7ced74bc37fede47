-- What a call has made whose answer was lost.
select plan.plan_key
from ferryman.ingest_plan as plan
where plan.id = :id
