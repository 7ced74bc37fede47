-- What is agreed for a gate. A new one begins at its best; one that was slowed down stays so, within what is agreed now.
insert into ferryman.ingest_gate as gate (source, endpoint, credential, top, floor, burst, rate)
values (:source, :endpoint, :credential, :top, :floor, :burst, :top)
on conflict (source, endpoint, credential) do update
set top = excluded.top,
    floor = excluded.floor,
    burst = excluded.burst,
    rate = case when gate.rate >= gate.top then excluded.top else greatest(excluded.floor, least(excluded.top, gate.rate)) end,
    updated_at = ferryman.clock()
where (gate.top, gate.floor, gate.burst) is distinct from (excluded.top, excluded.floor, excluded.burst)
