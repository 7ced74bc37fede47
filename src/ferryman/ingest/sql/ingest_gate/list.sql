-- Every gate, for people.
select gate.source, gate.endpoint, gate.credential, gate.top, gate.floor, gate.burst, gate.rate, gate.halvings, gate.spent_until,
    gate.closed_until, gate.quota_left, gate.quota_until, gate.good, gate.slow, gate.last_status, gate.halved_at, ferryman.clock() as now
from ferryman.ingest_gate as gate
order by gate.source, gate.endpoint, gate.credential
