-- Slots that nobody will use, given back by their holder; only while they are the last that were leased.
update ferryman.ingest_gate as gate
set spent_until = :unused_from,
    updated_at = ferryman.clock()
where gate.source = :source
  and gate.endpoint = :endpoint
  and gate.credential = :credential
  and gate.spent_until = :spent_until
