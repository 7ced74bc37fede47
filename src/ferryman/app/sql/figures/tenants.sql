-- Tenants of whom there is something to see: who had something happen of late, and who has tokens. There may be others.
select known.tenant
from (
    select event.tenant
    from (select tenant from ferryman.events order by id desc limit :reach) as event
    union
    select token.tenant
    from ferryman.access_tokens as token
    where token.revoked_at is null
      and token.tenant <> '*'
) as known
order by known.tenant
limit :limit
