-- A token was used; told once in some minutes, so that requests write nothing.
update ferryman.access_tokens as token
set last_used_at = ferryman.clock()
where token.id = :id
  and coalesce(token.last_used_at < ferryman.clock() - interval '5 minutes', true)
