-- Holds a webhook that is to be removed: what is owed to it is born before this, and seen by the next statement, or not at all.
select webhook.id
from ferryman.webhooks as webhook
where webhook.id = :id
  and webhook.tenant = :tenant
for update
