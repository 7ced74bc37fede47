-- How many webhooks have a secret that is made of another key, and how many deliveries died in the last day.
select (
           select count(*)
           from ferryman.webhooks as webhook
           where webhook.state = 'active'
             and webhook.key_id <> :key_id
       ) as strangers,
       (
           select count(*)
           from ferryman.webhook_deliveries as delivery
           where delivery.finished_at > ferryman.clock() - interval '1 day'
             and delivery.state = 'dead'
       ) as dead
