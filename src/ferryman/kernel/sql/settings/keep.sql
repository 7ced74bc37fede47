-- What SQL needs to know of the settings in force; written only when it differs.
insert into ferryman.settings (name, value, updated_at)
select given.key, given.value, ferryman.clock()
from jsonb_each(:values::jsonb) as given (key, value)
on conflict (name) do update
set value = excluded.value, updated_at = excluded.updated_at
where settings.value <> excluded.value
returning name
