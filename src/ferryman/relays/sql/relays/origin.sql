-- The name of this log among others that are published to the same broker, made once.
with made as (
    insert into ferryman.settings (name, value)
    values ('relays.origin', to_jsonb(:origin::text))
    on conflict (name) do nothing
    returning value
)
select value #>> '{}' as origin
from made
union all
select value #>> '{}'
from ferryman.settings
where name = 'relays.origin'
