-- A row of agreement without limits: for all tenants, which is the gate that is locked, and for one of them if it is named.
insert into ferryman.queues (name, tenant)
select :name, tenant
from unnest(array['*', :tenant::text]) as row (tenant)
group by tenant
order by tenant
on conflict do nothing
