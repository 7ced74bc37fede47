-- Webhooks that begin after the event at which their reader resumes. Their numbers may be of another history, so they begin there too.
update ferryman.webhooks as webhook
set after_id = :resume_id
from (
    select beyond.id, beyond.after_id as was
    from ferryman.webhooks as beyond
    where beyond.after_id > :resume_id and beyond.state <> 'disabled'
    order by beyond.id
    for update of beyond
) as beyond
where webhook.id = beyond.id and webhook.after_id > :resume_id
returning webhook.id, beyond.was
