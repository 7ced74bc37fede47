-- What a session allows now, and for how long: what its token allows, until either ends.
select token.id, token.tenant, token.name, token.scopes,
       session.ends_at > ferryman.clock() and token.revoked_at is null
           and coalesce(token.expires_at > ferryman.clock(), true) as live,
       extract(epoch from least(session.ends_at, token.expires_at) - ferryman.clock())::float8 as seconds_left,
       coalesce(token.last_used_at < ferryman.clock() - interval '5 minutes', true) as use_is_news
from ferryman.access_sessions as session
join ferryman.access_tokens as token on token.id = session.token_id
where session.hash = :hash::bytea
