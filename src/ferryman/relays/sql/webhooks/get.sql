-- One webhook, by its id or by its name; of a name that was used again, the newest.
select webhook.id, webhook.tenant, webhook.name, webhook.url, webhook.kinds, webhook.state, webhook.after_id, webhook.key_id,
       webhook.secret_version, webhook.created_at, webhook.updated_at, webhook.rotated_at, webhook.disabled_at
from ferryman.webhooks as webhook
where webhook.tenant = :tenant
  and (webhook.id = :id or webhook.name = :name)
order by webhook.id desc
limit 1
