-- How many webhooks have a secret that is made of another key.
select count(*) as count
from ferryman.webhooks as webhook
where webhook.state = 'active'
  and webhook.key_id <> :key_id
