select delivery.id
from ferryman.webhook_deliveries as delivery
join ferryman.webhooks as webhook on webhook.id = delivery.webhook_id
where delivery.tenant <> webhook.tenant
