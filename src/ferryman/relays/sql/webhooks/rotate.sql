-- A new secret; the one before signs too for a day.
update ferryman.webhooks as webhook
set secret_version = webhook.secret_version + 1, rotated_at = ferryman.clock(), updated_at = ferryman.clock(), key_id = :key_id
where webhook.id = :id
  and webhook.tenant = :tenant
  and webhook.state <> 'disabled'
returning webhook.secret_version
