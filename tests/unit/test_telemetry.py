import subprocess
import sys
import threading
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY

import ferryman
from ferryman.kernel import telemetry

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

pytestmark = pytest.mark.contract("K19")


def value(name: str, **labels: str) -> float:
    return telemetry.registry().get_sample_value(name, labels) or 0.0


def test_what_happens_is_counted_by_its_labels() -> None:
    before = value("ferryman_outcomes_total", domain="task", state="failed", code="TASK_TIMEOUT")

    telemetry.ended("task", "failed", "TASK_TIMEOUT", 3)

    assert value("ferryman_outcomes_total", domain="task", state="failed", code="TASK_TIMEOUT") == before + 3


def test_every_accessor_moves_its_metric() -> None:
    telemetry.created("task", "mail", 2)
    telemetry.claimed("task", "mail")
    telemetry.fenced("task", "settle")
    telemetry.acted("W13", 4)
    telemetry.spoiled("W13")
    telemetry.withheld("W13")
    telemetry.ticked()
    telemetry.overdue([("task", "W13", 0)])
    telemetry.rung("pg", "ready")
    telemetry.heard("pg", "ready")
    telemetry.healed("pg")
    telemetry.unrung("pg")
    telemetry.turned("task", 0.004, settled=7, claimed=3)
    telemetry.in_flight("task", 3)
    telemetry.left_behind(1)
    telemetry.reconnected("watchdog")
    telemetry.fault("settle.before", "raise")
    telemetry.relayed("nats", 3)
    telemetry.behind([("relay.nats", 7)])
    telemetry.blocked([(("4711", "psql", "ada", "yes"), 12.0)])
    telemetry.called("dead")
    telemetry.asked("/v1/tasks", 201, 0.01)
    telemetry.streaming(1)
    telemetry.depth("task", [("mail", "ready", 5)])
    telemetry.ended("task", "succeeded")
    telemetry.unmatched("async_task", "ASYNC_TASK_ENDED")
    told = telemetry.exposition().decode()

    moved = {line.split("{")[0].split(" ")[0] for line in told.splitlines() if not line.startswith("#")}
    for metric in telemetry.METRICS:
        suffix = "_count" if metric.kind == "histogram" else ""
        assert metric.name + suffix in moved, metric.name


def test_a_depth_that_is_no_longer_told_becomes_zero() -> None:
    telemetry.depth("turn", [("a", "ready", 5), ("b", "ready", 2)])
    telemetry.depth("turn", [("b", "ready", 1)])

    assert value("ferryman_queue_depth", domain="turn", queue="a", state="ready") == 0
    assert value("ferryman_queue_depth", domain="turn", queue="b", state="ready") == 1


def test_a_reader_of_the_log_that_was_forgotten_is_not_behind() -> None:
    telemetry.behind([("a", 5), ("b", 2)])
    telemetry.behind([("b", 1)])

    assert value("ferryman_relay_lag", consumer="a") == 0
    assert value("ferryman_relay_lag", consumer="b") == 1


def test_a_transaction_that_has_ended_leaves_the_metrics() -> None:
    one, other = ("1", "psql", "ada", "yes"), ("2", "", "bob", "no")
    telemetry.blocked([(one, 11.0), (other, 12.0)])
    telemetry.blocked([(other, 42.0)])

    shown = [
        line for line in telemetry.exposition().decode().splitlines() if line.startswith("ferryman_log_blocked_seconds")
    ]
    assert shown == ['ferryman_log_blocked_seconds{application="",pid="2",role="bob",wrote="no"} 42.0']
    telemetry.blocked([])


def test_nothing_is_put_into_the_registry_of_others() -> None:
    telemetry.ticked()

    assert REGISTRY.get_sample_value("ferryman_watchdog_ticks_total") is None


def test_threads_that_come_first_together_make_one_list() -> None:
    before = value("ferryman_created_total", domain="batch", queue="race")
    threads = [threading.Thread(target=telemetry.created, args=("batch", "race")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert value("ferryman_created_total", domain="batch", queue="race") == before + 8


def test_no_label_can_grow_with_tenants_or_ids() -> None:
    labels = {label for metric in telemetry.METRICS for label in metric.labels}

    assert not labels & {"tenant", "task_id", "id", "owner", "worker", "name"}


def test_importing_and_carrying_brings_in_neither_library() -> None:
    program = (
        "import sys\nfrom ferryman.kernel import telemetry\n"
        "with telemetry.span('task', None): assert telemetry.carry() is None\n"
        "assert not {'prometheus_client', 'opentelemetry'} & set(sys.modules)"
    )
    root = str(Path(ferryman.__file__).parent.parent)

    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": root}, check=True, timeout=30)


def test_a_trace_goes_on_where_nobody_exports_spans() -> None:
    program = (
        "from ferryman.kernel import telemetry\n"
        f"with telemetry.span('task', '{PARENT}') as span:\n"
        f"    assert span is None and telemetry.carry() == '{PARENT}'\n"
        "assert telemetry.carry() is None"
    )
    root = str(Path(ferryman.__file__).parent.parent)

    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": root}, check=True, timeout=30)


def test_work_runs_as_a_span_of_its_creators_trace(spans: InMemorySpanExporter) -> None:
    with telemetry.span("send_mail", PARENT, {"ferryman.task_id": "t1"}):
        carried = telemetry.carry()

    [made] = spans.get_finished_spans()
    assert made.name == "send_mail"
    assert made.parent is not None
    assert f"{made.parent.span_id:016x}" == "b7ad6b7169203331"
    assert made.attributes is not None
    assert made.attributes["ferryman.task_id"] == "t1"
    assert carried == f"00-0af7651916cd43dd8448eb211c80319c-{made.context.span_id:016x}-01"


def test_what_is_created_inside_a_users_span_carries_it(spans: InMemorySpanExporter) -> None:
    with trace.get_tracer("shop").start_as_current_span("checkout") as checkout:
        carried = telemetry.carry()

    here = checkout.get_span_context()
    assert carried == f"00-{here.trace_id:032x}-{here.span_id:016x}-{here.trace_flags:02x}"
    assert telemetry.carry() is None


def test_a_handlers_error_is_in_its_span(spans: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="no address"), telemetry.span("send_mail", PARENT):
        raise ValueError("no address")

    [made] = spans.get_finished_spans()
    assert made.status.status_code is trace.StatusCode.ERROR


def test_a_carried_value_that_is_no_traceparent_starts_a_trace_of_its_own(spans: InMemorySpanExporter) -> None:
    with telemetry.span("send_mail", "nonsense"):
        pass

    [made] = spans.get_finished_spans()
    assert made.parent is None


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (PARENT, True),
        (PARENT.upper(), False),
        ("00-" + "0" * 32 + "-b7ad6b7169203331-01", False),
        (PARENT + "-x", False),
        ("", False),
    ],
)
def test_a_traceparent_is_checked_at_the_door(text: str, good: bool) -> None:
    assert telemetry.is_traceparent(text) is good


def test_loggers_are_ours() -> None:
    assert telemetry.logger("watchdog").name == "ferryman.watchdog"
