-- The rate of one gate.
select gate.rate
from ferryman.ingest_gate as gate
where gate.source = :source
  and gate.endpoint = :endpoint
  and gate.credential = :credential
