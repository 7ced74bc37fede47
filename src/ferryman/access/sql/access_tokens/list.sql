-- The newest first, a page at a time.
select token.id, token.tenant, token.name, token.scopes, token.created_at, token.expires_at, token.revoked_at,
       token.last_used_at
from ferryman.access_tokens as token
where (:tenant::text is null or token.tenant = :tenant::text)
  and (:revoked::boolean or token.revoked_at is null)
  and (:before::uuid is null or token.id < :before::uuid)
order by token.id desc
limit :limit
