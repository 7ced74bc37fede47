-- Which of these boxes are the tenant's own, and which of them a live turn writes into or will (A8: one writer).
select box.id,
       exists (select from ferryman.agent_inbox as message
               where message.archived_at is null and message.tenant = box.tenant and message.output_box_id = box.id) as taken
from (
    select given.tenant, given.id
    from unnest((select :tenants::text[]), (select :ids::uuid[])) as given (tenant, id)
    limit (select 1000000)
) as given
join ferryman.boxes as box on box.id = given.id and box.tenant = given.tenant
