"""What the product says about itself (K19): a closed list of metrics, spans that follow the work, and plain logs.

Metrics live in a registry of their own, so that they meet neither the user's nor those of a second app by accident. Labels
are few and bounded: a domain, a queue, a state, a rule, a code; never a tenant, a task's id or anything a caller invents. They
are counted once a set, not once a row. `prometheus_client` costs some 60 ms to import: the first metric that moves does it.

Work carries a W3C traceparent from its creator through every hop, also through processes where nobody exports spans:
inside `span(...)` what is created carries on the trace of what is being run. Real spans are made only where a tracer
provider is configured; where OpenTelemetry was never imported it is not imported here either.

Logs are the standard library's, under `ferryman.*`; ids go into `extra=`, payloads go nowhere.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from prometheus_client import CollectorRegistry

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (0, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)

_making = threading.Lock()


@dataclass(frozen=True, eq=False)
class Metric:
    """One metric of the closed list."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    says: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    children: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False)

    def of(self, *values: str) -> Any:
        """Return the child for these labels, made once."""
        child = self.children.get(values)
        if child is None:
            made = _made()[self.name]
            child = self.children[values] = made.labels(*values) if self.labels else made
        return child


CREATED = Metric("ferryman_created_total", "counter", "Work accepted.", ("domain", "queue"))
CLAIMED = Metric("ferryman_claimed_total", "counter", "Work handed to a worker.", ("domain", "queue"))
ENDED = Metric("ferryman_outcomes_total", "counter", "Tries settled, by where they led.", ("domain", "state", "code"))
FENCED = Metric("ferryman_fenced_total", "counter", "Writes refused because their claim was stale.", ("domain", "move"))
UNMATCHED = Metric(
    "ferryman_unmatched_total", "counter", "Results from outside that changed nothing.", ("domain", "code")
)
ACTIONS = Metric("ferryman_watchdog_actions_total", "counter", "Findings repaired or ended.", ("rule",))
SPOILED = Metric("ferryman_watchdog_failures_total", "counter", "Findings that a rule could not act on.", ("rule",))
WITHHELD = Metric("ferryman_watchdog_withheld_total", "counter", "Looks put off after an outage.", ("rule",))
TICKS = Metric("ferryman_watchdog_ticks_total", "counter", "Rounds of this process's watchdog.")
LAST_TICK = Metric("ferryman_watchdog_last_tick_timestamp_seconds", "gauge", "When the last round ended.")
OVERDUE = Metric("ferryman_overdue", "gauge", "Live rows past their end; always 0.", ("domain", "rule"))
RUNG = Metric("ferryman_doorbell_rings_total", "counter", "Doorbells rung, after coalescing.", ("doorbell", "topic"))
UNRUNG = Metric("ferryman_doorbell_failures_total", "counter", "Rings that could not be sent at once.", ("doorbell",))
HEARD = Metric("ferryman_doorbell_heard_total", "counter", "Doorbells heard.", ("doorbell", "topic"))
HEALED = Metric("ferryman_doorbell_heals_total", "counter", "Doorbells lost and hung up again.", ("doorbell",))
TURN = Metric("ferryman_turn_seconds", "histogram", "One turn: settle a set, claim the next.", ("domain",), _SECONDS)
SET = Metric("ferryman_set_size", "histogram", "Rows in one set.", ("domain", "move"), _SIZES)
DEPTH = Metric("ferryman_queue_depth", "gauge", "Live work.", ("domain", "queue", "state"))
IN_FLIGHT = Metric("ferryman_in_flight", "gauge", "Handlers running in this process.", ("domain",))
LEFT_BEHIND = Metric("ferryman_threads_left_behind", "gauge", "Threads that go on although their attempts are over.")
RECONNECTS = Metric("ferryman_reconnects_total", "counter", "Connections to the database made anew.", ("line",))
RELAYED = Metric("ferryman_relayed_total", "counter", "Events of the log told to the outside.", ("relay",))
BEHIND = Metric("ferryman_relay_lag", "gauge", "Events of the log that a reader has still to read.", ("consumer",))
BLOCKED = Metric(
    "ferryman_log_blocked_seconds",
    "gauge",
    "Age of each open transaction that wrote to the log, or may hold up its readers at the next gap; over 10 s only.",
    ("pid", "application", "role", "wrote"),
)
CALLS = Metric("ferryman_webhook_calls_total", "counter", "Tries of webhooks, by what became of them.", ("outcome",))
REQUESTS = Metric("ferryman_http_requests_total", "counter", "Requests answered.", ("route", "status"))
REQUEST = Metric("ferryman_http_request_seconds", "histogram", "From request to answer.", ("route",), _SECONDS)
STREAMS = Metric("ferryman_http_streams", "gauge", "Streams that are open in this process.")
FAULTS = Metric("ferryman_faults_total", "counter", "Faults that a test injected.", ("point", "action"))

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))


@cache
def _registry() -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    return CollectorRegistry(auto_describe=True)


_metrics: dict[str, Any] = {}


def _made() -> dict[str, Any]:
    """Make the whole list at the first use of any, so that a metric that never moved is shown too."""
    if not _metrics:
        with _making:
            if not _metrics:
                _metrics.update(_make())
    return _metrics


def _make() -> dict[str, Any]:
    import prometheus_client

    kinds = {
        "counter": prometheus_client.Counter,
        "gauge": prometheus_client.Gauge,
        "histogram": prometheus_client.Histogram,
    }
    made: dict[str, Any] = {}
    for metric in METRICS:
        more: dict[str, Any] = {"buckets": metric.buckets} if metric.buckets else {}
        made[metric.name] = kinds[metric.kind](metric.name, metric.says, metric.labels, registry=_registry(), **more)
    return made


def registry() -> CollectorRegistry:
    """Return the registry, for a user who serves metrics beside their own."""
    _made()
    return _registry()


def exposition() -> bytes:
    """Return all metrics as Prometheus reads them."""
    from prometheus_client import generate_latest

    return generate_latest(registry())


def created(domain: str, queue: str, count: int = 1) -> None:
    """Count work that was accepted."""
    CREATED.of(domain, queue).inc(count)


def claimed(domain: str, queue: str, count: int = 1) -> None:
    """Count work that a worker has taken."""
    CLAIMED.of(domain, queue).inc(count)


def ended(domain: str, state: str, code: str | None = None, count: int = 1) -> None:
    """Count tries that were settled."""
    ENDED.of(domain, state, code or "").inc(count)


def fenced(domain: str, move: Literal["settle", "renew", "progress", "log", "step"], count: int = 1) -> None:
    """Count writes of holders whose claim was stale."""
    if count:
        FENCED.of(domain, move).inc(count)


def unmatched(domain: str, code: str) -> None:
    """Count a result from outside that met nothing it could end."""
    UNMATCHED.of(domain, code).inc()


def acted(rule: str, count: int) -> None:
    """Count findings that a watchdog's rule has repaired or ended."""
    if count:
        ACTIONS.of(rule).inc(count)


def spoiled(rule: str, count: int = 1) -> None:
    """Count findings that a rule could not act on."""
    SPOILED.of(rule).inc(count)


def withheld(rule: str) -> None:
    """Count a look that was put off because the database had been away."""
    WITHHELD.of(rule).inc()


def ticked() -> None:
    """Say that a watchdog has done a round."""
    TICKS.of().inc()
    LAST_TICK.of().set_to_current_time()


def overdue(rows: Iterable[tuple[str, str, int]]) -> None:
    """Raise the alarm, as (domain, rule, count): rows that no rule has ended in time; what is told no more becomes 0."""
    told = {(domain, rule): count for domain, rule, count in rows}
    for labels in {*OVERDUE.children, *told}:
        OVERDUE.of(*labels).set(told.get((labels[0], labels[1]), 0))


def rung(doorbell: str, topic: str, count: int = 1) -> None:
    """Count doorbells rung."""
    RUNG.of(doorbell, topic).inc(count)


def unrung(doorbell: str) -> None:
    """Count a ring that could not be sent, and is kept for another try."""
    UNRUNG.of(doorbell).inc()


def heard(doorbell: str, topic: str, count: int = 1) -> None:
    """Count doorbells heard."""
    HEARD.of(doorbell, topic).inc(count)


def healed(doorbell: str) -> None:
    """Count a doorbell that was lost and is back."""
    HEALED.of(doorbell).inc()


def turned(domain: str, seconds: float, *, settled: int, claimed: int) -> None:
    """Tell of one turn: how long it took and how large its sets were."""
    TURN.of(domain).observe(seconds)
    SET.of(domain, "settle").observe(settled)
    SET.of(domain, "claim").observe(claimed)


def depth(domain: str, rows: Iterable[tuple[str, str, int]]) -> None:
    """Show how much is live, as (queue, state, count); what was shown before and is gone becomes 0."""
    told = {(domain, queue, state): count for queue, state, count in rows}
    for labels in {*(labels for labels in DEPTH.children if labels[0] == domain), *told}:
        DEPTH.of(*labels).set(told.get((domain, labels[1], labels[2]), 0))


def in_flight(domain: str, count: int) -> None:
    """Show how many handlers are running here."""
    IN_FLIGHT.of(domain).set(count)


def left_behind(change: int) -> None:
    """Count a thread whose attempt is over, and its end."""
    LEFT_BEHIND.of().inc(change)


def reconnected(line: str) -> None:
    """Count a connection that had to be made anew."""
    RECONNECTS.of(line).inc()


def relayed(relay: Literal["nats", "webhooks"], count: int) -> None:
    """Count events that a relay has published, or has turned into deliveries."""
    RELAYED.of(relay).inc(count)


def behind(rows: Iterable[tuple[str, int]]) -> None:
    """Show how far each reader of the log is from its end; one that was forgotten becomes 0."""
    told = dict(rows)
    for name in {*(labels[0] for labels in BEHIND.children), *told}:
        BEHIND.of(name).set(told.get(name, 0))


def blocked(rows: Iterable[tuple[tuple[str, str, str, str], float]]) -> None:
    """Show the age of the transactions that hold up readers of the log; those that have ended are shown no more."""
    told = dict(rows)
    for labels in set(BLOCKED.children) - set(told):
        del BLOCKED.children[labels]
        _made()[BLOCKED.name].remove(*labels)
    for labels, seconds in told.items():
        BLOCKED.of(*labels).set(seconds)


def called(outcome: Literal["delivered", "failed", "dead"], count: int = 1) -> None:
    """Count tries of webhooks: taken, failed with another try to come, or the last."""
    CALLS.of(outcome).inc(count)


def asked(route: str, status: int, seconds: float) -> None:
    """Count a request that was answered, by its route (none: nothing is there) and status."""
    REQUESTS.of(route, str(status)).inc()
    REQUEST.of(route).observe(seconds)


def streaming(change: int) -> None:
    """Count a stream that was opened or has ended."""
    STREAMS.of().inc(change)


def fault(point: str, action: str) -> None:
    """Count a fault that a test injected."""
    FAULTS.of(point, action).inc()


_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_carried: ContextVar[str | None] = ContextVar("ferryman_traceparent", default=None)


def is_traceparent(text: str) -> bool:
    """Say whether this is a W3C traceparent that can be carried."""
    return _TRACEPARENT.fullmatch(text) is not None


def carry() -> str | None:
    """Return the traceparent that what is created now should carry, or None."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        here = trace.get_current_span().get_span_context()
        if here.is_valid:
            return f"00-{here.trace_id:032x}-{here.span_id:016x}-{here.trace_flags:02x}"
    return _carried.get()


class span:  # noqa: N801  (read as a verb: `with span("task", ...)`)
    """Run a block as one span of the trace that the work carries; gives the span, or None where none is made."""

    __slots__ = ("_attributes", "_carried", "_name", "_open", "_traceparent")

    def __init__(self, name: str, traceparent: str | None = None, attributes: Mapping[str, Any] | None = None) -> None:
        self._name = name
        self._traceparent = traceparent if traceparent and is_traceparent(traceparent) else None
        self._attributes = attributes
        self._carried: Token[str | None] | None = None
        self._open: Any = None

    def __enter__(self) -> Span | None:
        if self._traceparent is not None:
            self._carried = _carried.set(self._traceparent)
        if not _configured():
            return None
        from opentelemetry import trace

        self._open = trace.get_tracer("ferryman").start_as_current_span(
            self._name,
            context=_context(self._traceparent),
            kind=trace.SpanKind.INTERNAL if self._traceparent is None else trace.SpanKind.CONSUMER,
            attributes=self._attributes,
        )
        made: Span = self._open.__enter__()
        return made

    def __exit__(self, *error: Any) -> None:
        try:
            if self._open is not None:
                self._open.__exit__(*error)
        finally:
            if self._carried is not None:
                _carried.reset(self._carried)


def _configured() -> bool:
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return False
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def _context(traceparent: str | None) -> Context | None:
    if traceparent is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent})


def logger(part: str) -> logging.Logger:
    """Return the logger of one part of the product."""
    return logging.getLogger(f"ferryman.{part}")
