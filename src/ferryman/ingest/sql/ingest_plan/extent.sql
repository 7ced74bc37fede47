-- What a plan is to cover, as numbers, and where the cursor that follows it stands.
select plan.lower, plan.upper, case when plan.window_from is null then 'ID' else 'TIME' end as kind, cursor.position,
       slices.count as slices, ferryman.clock() as now
from ferryman.ingest_plan as plan
left join ferryman.ingest_cursor as cursor on cursor.id = plan.cursor_id
cross join lateral (
    select count(*) as count
    from ferryman.ingest_slice as slice
    where slice.plan_id = plan.id
) as slices
where plan.id = :plan_id
  and plan.tenant = :tenant
