-- The newest first, a page at a time.
select webhook.id, webhook.tenant, webhook.name, webhook.url, webhook.kinds, webhook.state, webhook.after_id, webhook.key_id,
       webhook.secret_version, webhook.created_at, webhook.updated_at, webhook.rotated_at, webhook.disabled_at
from ferryman.webhooks as webhook
where webhook.tenant = :tenant
  and (:state::text is null or webhook.state = :state::text)
  and (:before::uuid is null or webhook.id < :before::uuid)
order by webhook.id desc
limit :limit
