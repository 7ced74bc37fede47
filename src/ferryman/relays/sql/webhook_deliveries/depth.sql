-- How many deliveries are owed and how many are being sent, up to a million.
select count(*) filter (where owed.leased_until is null) as waiting, count(owed.leased_until) as sending
from (
    select delivery.leased_until
    from ferryman.webhook_deliveries as delivery
    where delivery.finished_at is null
    limit 1000000
) as owed
