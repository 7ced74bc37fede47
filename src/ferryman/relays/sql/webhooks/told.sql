-- Whoever may be owed an event of these tenants.
select webhook.id, webhook.tenant, webhook.name, webhook.url, webhook.kinds, webhook.state, webhook.after_id, webhook.key_id,
       webhook.secret_version, webhook.created_at, webhook.updated_at, webhook.rotated_at, webhook.disabled_at
from ferryman.webhooks as webhook
where webhook.tenant = any(:tenants::text[])
  and webhook.state <> 'disabled'
