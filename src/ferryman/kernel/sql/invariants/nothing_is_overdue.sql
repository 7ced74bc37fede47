select domain, id, tenant, state, rule, ends_by
from ferryman.overdue
