"""I9: one rate for all executors, that falls when the source says so and comes back by itself."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from ferryman.cli.ingest import gates as shown
from ferryman.ingest.intake import gates as intake
from ferryman.ingest.ports import Allow, Answer, Decision, GateKey, Reject, WaitUntil
from ferryman.ingest.rules import pace
from ferryman.ingest.rules.pace import Pace
from ferryman.ingest.store import gates
from ferryman.ingest.store.gates import News
from ferryman.ingest.work.gate import SharedGate
from ferryman.kernel.pool import Line
from ferryman.testing import Cluster, travel

pytestmark = pytest.mark.contract("I9")

NAME = ("shop", "orders", "main")
KEY = GateKey(*NAME)
QUICK = timedelta(milliseconds=5)
GOOD = Answer(200, QUICK)
TOO_MANY = Answer(429, QUICK)


class World:
    """One clock for the database and for the processes that lease from it."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.moved = 0.0

    def clock(self) -> float:
        return self.moved

    async def move(self, seconds: float) -> None:
        self.moved += seconds
        await travel(self.line, timedelta(seconds=seconds))


class Counting:
    """A Tx that counts its round trips."""

    schema = "ferryman"

    def __init__(self, line: Line) -> None:
        self.line = line
        self.trips = 0

    async def fetch(self, query: str, /, *args: Any) -> Any:
        self.trips += 1
        return await self.line.fetch(query, *args)


@pytest.fixture(scope="module")
def still_url(cluster: Cluster) -> Iterator[str]:
    """A database whose clock stands still, so that time passes when a test says so."""
    with asyncio.Runner() as runner:
        lent = cluster.database()
        url = runner.run(lent.__aenter__())
        runner.run(_stop_the_clock(url))
        yield url
        runner.run(lent.__aexit__(None, None, None))


async def _stop_the_clock(url: str) -> None:
    line = Line(url)
    await line.execute(
        "create or replace function ferryman.clock() returns timestamptz language sql stable as "
        "$$ select timestamptz '2026-11-16 00:00Z' + shift from ferryman.clock_shift $$"
    )
    await line.close()


@pytest.fixture
async def world(still_url: str) -> AsyncIterator[World]:
    line = Line(still_url)
    await line.execute("delete from ferryman.ingest_gate; update ferryman.clock_shift set shift = '0'")
    yield World(line)
    await line.close()


Made = Callable[[Pace], SharedGate]


@pytest.fixture
async def made(world: World, still_url: str) -> AsyncIterator[Made]:
    """Gates of processes of their own."""
    lines: list[Line] = []

    def make(agreed: Pace) -> SharedGate:
        lines.append(Line(still_url))
        return SharedGate(Counting(lines[-1]), lambda _key: agreed, clock=world.clock)

    yield make
    for line in lines:
        await line.close()


async def row(world: World) -> Any:
    [found] = await gates.list_all(world.line)
    return found


def trips(gate: SharedGate) -> int:
    counting = gate._tx
    assert isinstance(counting, Counting)
    return counting.trips


async def allowed(gate: SharedGate, key: GateKey = KEY) -> int:
    """How many may go now."""
    count = 0
    while isinstance(await gate.acquire(key), Allow):
        count += 1
    return count


def at(decision: Decision) -> float:
    assert isinstance(decision, WaitUntil), decision
    return (decision.at - datetime(2026, 11, 16, tzinfo=UTC)).total_seconds()


async def test_a_gate_allows_its_burst_and_then_one_request_per_interval(world: World, made: Made) -> None:
    gate = made(Pace(top=10, burst=3))

    assert await allowed(gate) == 3
    assert at(await gate.acquire(KEY)) > 0
    began = []
    for tick in range(1, 21):
        await world.move(0.05)
        began += [tick] * await allowed(gate)

    assert len(began) == 10
    assert max(began.count(tick) for tick in began) == 1


async def test_many_waiters_are_told_a_moment_each(world: World, made: Made) -> None:
    gate = made(Pace(top=10, burst=1))
    assert isinstance(await gate.acquire(KEY), Allow)

    moments = sorted([at(await gate.acquire(KEY)) for _ in range(5)])

    assert moments[0] == pytest.approx(0.1)
    assert len(set(moments)) == 5
    assert all(later - earlier == pytest.approx(0.1) for earlier, later in pairwise(moments))


async def test_slots_are_leased_in_lots_so_that_most_requests_cost_no_round_trip(world: World, made: Made) -> None:
    gate = made(Pace(top=1000, burst=1))
    went = 0
    for _ in range(40):
        await world.move(0.05)
        went += await allowed(gate)

    assert went > 1500
    # At least one trip for each look above, which always ends by asking for more than there is.
    assert trips(gate) < 60


async def test_executors_share_one_rate(world: World, made: Made) -> None:
    shared = [made(Pace(top=20, burst=1)) for _ in range(3)]
    went = []
    for tick in range(100):
        for gate in shared:
            went += [tick] * await allowed(gate)
        await world.move(0.02)

    for begun in range(0, 100, 5):
        window = [tick for tick in went if begun <= tick < begun + 50]
        assert len(window) <= 20 + 1 + 2  # a burst of one, and a tenth of a second of being late
    assert len(went) >= 0.9 * 2 * 20


async def test_no_two_connections_are_ever_leased_the_same_slot(world: World, still_url: str) -> None:
    lines = [Line(still_url) for _ in range(4)]
    await gates.declare(world.line, NAME, Pace(top=50, burst=1))
    slots: list[datetime] = []
    for turn in range(30):
        leases = await asyncio.gather(
            *(gates.pass_through(line, NAME, wish=1 + turn % 5, news=News(), halvings=0) for line in lines)
        )
        for leased in leases:
            assert leased is not None
            slots += [leased.first_at + timedelta(seconds=n * leased.every_seconds) for n in range(leased.slots)]
        await world.move(0.2)
    for line in lines:
        await line.close()

    assert len(slots) > 200
    apart = min((later - earlier).total_seconds() for earlier, later in pairwise(sorted(slots)))
    assert apart == pytest.approx(0.02, abs=1e-5)


async def test_the_slots_of_an_executor_that_died_pass_like_any_time(world: World, made: Made) -> None:
    dead, alive = made(Pace(top=10, burst=10)), made(Pace(top=10, burst=10))
    assert await allowed(dead) == 10
    await dead.acquire(KEY)
    await world.move(3)

    went = await allowed(alive)

    assert went == 10


async def test_a_refusal_halves_the_rate_once_for_all_that_were_in_flight(world: World, made: Made) -> None:
    one, two = made(Pace(top=16, burst=4)), made(Pace(top=16, burst=4))
    assert await allowed(one) > 0
    await world.move(1)
    assert await allowed(two) > 0
    await world.move(0.005)

    for gate in (one, two):
        for _ in range(5):
            gate.told(KEY, TOO_MANY)
        await gate.settle()

    assert (await row(world))["rate"] == 8
    await world.move(1)
    assert await allowed(one) > 0
    await world.move(0.005)
    one.told(KEY, TOO_MANY)
    await one.settle()
    assert (await row(world))["rate"] == 4


async def test_a_request_that_began_before_the_rate_was_halved_does_not_halve_it_again(
    world: World, made: Made
) -> None:
    gate = made(Pace(top=16, burst=4))
    assert await allowed(gate) > 0
    for latency in (1, 1.5, 2):  # three that began together, refused one after another
        await world.move(latency - 1 or 1)
        gate.told(KEY, Answer(503, timedelta(seconds=latency)))
        await gate.settle()

    assert (await row(world))["rate"] == 8


@pytest.mark.parametrize("status", [429, 500, 503, None])
async def test_the_rate_has_a_floor(world: World, made: Made, status: int | None) -> None:
    gate = made(Pace(top=1, burst=1, floor=0.1))
    for _ in range(10):
        await world.move(20)
        assert await allowed(gate) == 1
        await world.move(0.005)
        gate.told(KEY, Answer(status, QUICK))
        await gate.settle()

    assert (await row(world))["rate"] == pytest.approx(0.1)


@pytest.mark.contract("I13")
async def test_after_the_storm_the_rate_climbs_back_by_itself(world: World, made: Made) -> None:
    """The curve: down by halves to the floor, up by steps to the top, in a straight line."""
    agreed = pace.agree("8/s", burst=1)
    gate = made(agreed)
    curve = []
    for second in range(60):
        for _ in range(16):
            if isinstance(await gate.acquire(KEY), Allow):
                gate.told(KEY, Answer(503 if 5 <= second < 20 else 200, timedelta(0)))
                await gate.settle()
            await world.move(1 / 16)
        curve.append((await row(world))["rate"])

    assert curve[4] == 8
    assert curve[5] < 8
    low = curve.index(min(curve))
    assert curve[5 : low + 1] == sorted(curve[5 : low + 1], reverse=True)
    assert curve[low] == pytest.approx(0.1, abs=0.1)
    up = curve[low:]
    assert up == sorted(up)
    assert up[-1] == 8
    steps = [later - earlier for earlier, later in pairwise(up)]
    assert max(steps) <= 2 * agreed.step  # news may come two seconds at a time
    # The storm ends at 20; the next slot may be 10 s away, and from the floor to the top it is 20 steps.
    assert 35 <= low + up.index(8) <= 55


async def test_retry_after_closes_the_gate_for_everybody(world: World, made: Made) -> None:
    one, two = made(Pace(top=100, burst=1)), made(Pace(top=100, burst=1))
    assert await allowed(one) == 1
    one.told(KEY, Answer(429, QUICK, retry_after=timedelta(seconds=30)))
    await one.settle()

    assert at(await two.acquire(KEY)) == pytest.approx(30)
    await world.move(29)
    assert await allowed(one) == await allowed(two) == 0
    await world.move(1.2)
    assert await allowed(two) == 1


async def test_a_refusal_with_a_time_to_come_back_is_one_of_being_too_fast_whatever_its_status(
    world: World, made: Made
) -> None:
    gate = made(Pace(top=8, burst=1))
    await allowed(gate)
    await world.move(0.005)
    gate.told(KEY, Answer(403, QUICK, retry_after=timedelta(seconds=30)))

    assert at(await gate.acquire(KEY)) == pytest.approx(30, abs=0.1)
    assert (await row(world))["rate"] == 4


async def test_a_wait_beyond_the_patience_is_a_reject(world: World, made: Made) -> None:
    gate = made(Pace(top=100, burst=1, patience=timedelta(minutes=5)))
    await allowed(gate)
    gate.told(KEY, Answer(429, QUICK, headers={"Retry-After": "3600"}))

    decision = await gate.acquire(KEY)

    assert isinstance(decision, Reject)
    assert "01:00:00Z" in decision.reason


async def test_a_quota_is_spent_by_all_together_and_opens_anew(world: World, made: Made) -> None:
    one, two = made(Pace(top=100, burst=1)), made(Pace(top=100, burst=1))
    assert await allowed(one) == 1
    await world.move(0.005)
    one.told(KEY, Answer(200, QUICK, headers={"X-RateLimit-Remaining": "4", "X-RateLimit-Reset": "60"}))

    await one.settle()
    went = 0
    for _ in range(20):
        went += await allowed(one) + await allowed(two)
        await world.move(0.01)
    assert went == 4
    assert at(await one.acquire(KEY)) == pytest.approx(60, abs=0.1)

    await world.move(60)
    assert await allowed(one) == 1


@pytest.mark.parametrize("used", [1, 4, 32, 300])
async def test_a_small_quota_is_used_however_many_slots_are_leased_at_a_time(
    world: World, made: Made, used: int
) -> None:
    gate = made(Pace(top=100, burst=1))
    for _ in range(used):  # as long as all are used a lot doubles
        await gate.acquire(KEY)
        await world.move(0.01)

    minutes = []
    for _ in range(3):
        left = 40
        for tick in range(300):
            if isinstance(await gate.acquire(KEY), Allow):
                left -= 1
                said = {"X-RateLimit-Remaining": str(left), "X-RateLimit-Reset": str(60 - tick // 100)}
                gate.told(KEY, Answer(200, QUICK, headers=said))
                await gate.settle()
            await world.move(0.01)
        minutes.append(40 - left)
        await world.move(60)

    assert all(35 <= each <= 40 for each in minutes), minutes


async def test_what_is_held_of_a_quota_that_comes_to_its_end_is_not_leased_to_others(world: World, made: Made) -> None:
    one, two = made(Pace(top=100, burst=1)), made(Pace(top=100, burst=1))
    for _ in range(3):  # the second lot has two slots, and the third four
        await one.acquire(KEY)
        await world.move(0.01)
    assert isinstance(await one.acquire(KEY), Allow)
    one.told(KEY, Answer(200, QUICK, headers={"X-RateLimit-Remaining": "4", "X-RateLimit-Reset": "60"}))
    await one.settle()

    went = 0
    for _ in range(20):
        went += await allowed(two) + await allowed(one)
        await world.move(0.01)

    assert went == 4


async def test_a_refusal_of_one_request_moves_no_rate(world: World, made: Made) -> None:
    gate = made(Pace(top=10, burst=1))
    await allowed(gate)
    await world.move(0.005)
    gate.told(KEY, Answer(404, QUICK))
    await gate.close()

    found = await row(world)
    assert (found["rate"], found["halvings"], found["last_status"]) == (10, 0, 404)


async def test_a_clock_that_was_moved_back_does_not_close_a_gate_for_long(world: World, made: Made) -> None:
    gate = made(Pace(top=10, burst=1))
    await allowed(gate)
    await travel(world.line, timedelta(hours=-2))
    later = made(Pace(top=10, burst=1))

    assert isinstance(await later.acquire(KEY), WaitUntil)
    await world.move(12)
    assert await allowed(later) == 1


@pytest.mark.contract("I9")
@pytest.mark.parametrize("said", [{"Retry-After": "60"}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60"}])
async def test_a_gate_that_a_source_closed_opens_in_a_day_however_far_the_clock_was_moved_back(
    world: World, made: Made, said: dict[str, str]
) -> None:
    """Also while somebody asks again and again: what he is told does not move on with the time."""
    gate = made(Pace(top=10, burst=1))
    await allowed(gate)
    await world.move(0.005)
    gate.told(KEY, Answer(429, QUICK, headers=said))
    await gate.settle()
    await travel(world.line, timedelta(days=-10))
    later = made(Pace(top=10, burst=1))

    before = []
    for _ in range(24):
        before.append(await allowed(later))
        await world.move(3600)
    await world.move(12)

    assert sum(before) == 0
    assert await allowed(later) == 1


async def test_who_closes_gives_back_what_is_left(world: World, made: Made) -> None:
    gate = made(Pace(top=2, burst=1))
    assert await allowed(gate) == 1
    await gate.close()

    assert (await row(world))["spent_until"] == datetime(2026, 11, 16, 0, 0, 0, 500_000, tzinfo=UTC)


async def test_what_is_agreed_anew_holds_at_once(world: World, made: Made) -> None:
    assert await allowed(made(Pace(top=10, burst=1))) == 1
    await world.move(5)

    assert await allowed(made(Pace(top=50, burst=5))) == 5
    assert (await row(world))["rate"] == 50
    await made(Pace(top=2, burst=1)).acquire(KEY)
    assert (await row(world))["rate"] == 2


@pytest.mark.contract("I9")
async def test_a_rate_rises_by_steps_to_its_top_and_is_halved_down_to_its_floor(world: World) -> None:
    agreed = Pace(top=8, burst=2, floor=0.25, step=0.5)
    await gates.declare(world.line, NAME, agreed)
    rate, halvings, rates = agreed.top, 0, list[float]()
    for slow in [True, True, False, False, True, *[False] * 80, *[True] * 8, False]:
        news = News(good=not slow, bad=slow, gain=0 if slow else pace.gain(agreed, rate), slow=slow)
        leased = await gates.pass_through(world.line, NAME, wish=0, news=news, halvings=halvings)
        assert leased is not None
        rate = max(agreed.floor, rate / 2) if slow else min(agreed.top, rate + news.gain)
        halvings = leased.halvings
        rates.append(leased.rate)
        assert leased.rate == pytest.approx(rate)
    assert (min(rates), max(rates)) == (agreed.floor, agreed.top)


async def test_a_gate_says_why_it_is_slow(world: World, made: Made) -> None:
    gate = made(Pace(top=10, burst=1))
    await allowed(gate)
    assert [each.says for each in await intake.read(world.line)] == ["Open at its best: 10 requests a second."]
    await world.move(0.005)
    gate.told(KEY, Answer(429, QUICK, retry_after=timedelta(seconds=30)))
    await gate.settle()

    [found] = await intake.read(world.line)
    assert found.says == "Closed until 2026-11-16 00:00:30Z: the source asked for it (HTTP 429)."
    assert json.loads(json.dumps(shown._told(found)))["closed_until"] == "2026-11-16T00:00:30.005000+00:00"
    assert (found.rate, found.halvings, found.slow, found.next_at) == (5, 1, 1, found.closed_until)
    await world.move(31)
    [found] = await intake.read(world.line)
    assert found.says.startswith("5 of 10 requests a second, slowed down last at 2026-11-16 00:00:00Z.")


OTHERS = [
    ("shop", "orders", "main"),
    ("mall", "orders", "main"),
    ("shop", "items", "main"),
    ("shop", "orders", "spare"),
]


async def test_a_gate_is_told_asked_and_read_alone(world: World) -> None:
    for each in OTHERS:
        await gates.declare(world.line, each, Pace(top=10, burst=1))
    news = News(bad=1, slow=True, closed_for=timedelta(0), status=429)

    leased = await gates.pass_through(world.line, NAME, wish=3, news=news, halvings=0)

    assert leased is not None
    assert [(each.source, each.endpoint, each.credential, each.rate) for each in await intake.read(world.line)] == [
        ("mall", "orders", "main", 10),
        ("shop", "items", "main", 10),
        ("shop", "orders", "main", 5),
        ("shop", "orders", "spare", 10),
    ]
    assert [await gates.rate(world.line, each) for each in OTHERS] == [5, 10, 10, 10]
    assert await gates.rate(world.line, ("no", "such", "gate")) is None


async def test_slots_are_given_back_alone_and_only_while_they_are_the_last(world: World) -> None:
    for each in OTHERS:
        await gates.declare(world.line, each, Pace(top=10, burst=1))
        leased = await gates.pass_through(world.line, each, wish=5, news=News(), halvings=0)
    assert leased is not None
    ends, back = leased.spent_until, leased.spent_until - timedelta(seconds=0.2)

    await gates.give_back(world.line, NAME, unused_from=back, spent_until=ends)
    after = {
        (row["source"], row["endpoint"], row["credential"]): row["spent_until"]
        for row in await gates.list_all(world.line)
    }
    assert after == dict.fromkeys(OTHERS, ends) | {NAME: back}

    # Somebody has leased behind them in the meantime.
    await gates.give_back(world.line, NAME, unused_from=back - timedelta(seconds=1), spent_until=ends)
    assert (await gates.list_all(world.line))[2]["spent_until"] == back


async def test_what_is_agreed_again_leaves_the_row_alone(world: World) -> None:
    await gates.declare(world.line, NAME, Pace(top=10, burst=1))
    [before] = await world.line.fetch("select xmin::text as xmin from ferryman.ingest_gate")
    await gates.declare(world.line, NAME, Pace(top=10, burst=1))
    [after] = await world.line.fetch("select xmin::text as xmin from ferryman.ingest_gate")

    assert before["xmin"] == after["xmin"]


async def test_a_gate_is_found_by_its_key_among_many(world: World) -> None:
    await world.line.execute(
        "insert into ferryman.ingest_gate (source, endpoint, top, floor, burst, rate)"
        " select 'source' || n, 'orders', 1, 0.1, 1, 1 from generate_series(1, 2000) as n"
    )
    known = {"source": "source7", "endpoint": "orders", "credential": ""}
    zero = timedelta(0)
    told = dict.fromkeys(("wish", "good", "bad", "halvings"), 0) | {
        "gain": 0.0, "slow": False, "closed_for": None, "quota_left": None, "quota_for": None, "last_status": None,
        "horizon": zero, "lot": zero, "longest": zero,
    }  # fmt: skip

    rows = await world.line.fetch(f"explain {gates._PASS.sql()}", *gates._PASS.bind({**known, **told}))

    plan = "\n".join(row["QUERY PLAN"] for row in rows)
    assert "Seq Scan" not in plan
    assert plan.count("ingest_gate_pkey") == 2
