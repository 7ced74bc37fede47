-- Whether a token is there that nobody has revoked, and whether one of these can be used now.
select exists (
           select from ferryman.access_tokens as token
           where token.revoked_at is null
       ) as standing,
       exists (
           select from ferryman.access_tokens as token
           where token.revoked_at is null
             and coalesce(token.expires_at > ferryman.clock(), true)
       ) as live
