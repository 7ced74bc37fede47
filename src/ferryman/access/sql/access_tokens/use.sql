-- What a token allows now, and for how long; whether its last use was told long ago.
select token.id, token.tenant, token.name, token.scopes, token.hash,
       token.revoked_at is null and coalesce(token.expires_at > ferryman.clock(), true) as live,
       extract(epoch from token.expires_at - ferryman.clock())::float8 as seconds_left,
       coalesce(token.last_used_at < ferryman.clock() - interval '5 minutes', true) as use_is_news
from ferryman.access_tokens as token
where token.id = :id
