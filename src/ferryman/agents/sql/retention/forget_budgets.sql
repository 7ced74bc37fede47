-- Budgets of turns that were forgotten, unless they were used since or something live may use them.
delete from ferryman.budgets as budget
using (
    select distinct given.tenant, given.id
    from unnest((select :tenants::text[]), (select :ids::uuid[])) as given (tenant, id)
) as word
where budget.tenant = word.tenant
  and budget.id = word.id
  and coalesce(budget.updated_at, budget.created_at) <= ferryman.clock() - :kept::interval
  and not exists (select from ferryman.agent_inbox as message
                  where message.archived_at is null
                    and message.tenant = budget.tenant
                    and message.budget_id = budget.id)
  and not exists (select from ferryman.budget_reservations as reserved
                  where reserved.tenant = budget.tenant
                    and reserved.budget_id = budget.id)
returning budget.id
