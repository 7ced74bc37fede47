-- One token, by its id, or by its name as long as it is not revoked.
select token.id, token.tenant, token.name, token.scopes, token.created_at, token.expires_at, token.revoked_at,
       token.last_used_at
from ferryman.access_tokens as token
where token.id = :id::uuid
   or (token.tenant = :tenant::text and token.name = :name::text and token.revoked_at is null)
