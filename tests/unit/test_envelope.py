"""T13: what the outside sees of a task's move."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from ferryman.kernel.events import Event
from ferryman.tasks.rules.envelope import envelope

EVENT = Event(
    id=1,
    at=datetime(2026, 2, 25, 13, 0, 30, tzinfo=timezone(timedelta(hours=1))),
    tenant="default",
    kind="task",
    subject=UUID("01948a7e-0000-7000-8000-000000000001"),
    subject_name="task_20260225_0001",
    from_state="running",
    to_state="failed",
    attempt=3,
    reason_code="TASK_RETRY_EXHAUSTED",
    reason_message="start_to_close timeout exhausted retries",
    data=None,
    token=0x64BA4C02A95C5,
)


@pytest.mark.contract("T13")
def test_a_move_is_told_in_the_envelope_of_the_source() -> None:
    assert envelope(EVENT) == {
        "type": "task_state_changed",
        "source": "gateway.scheduler",
        "session_key": "scheduler:default",
        "event_id": "evt_1-64ba4c02a95c5",
        "payload": {
            "task_id": "task_20260225_0001",
            "from_state": "running",
            "to_state": "failed",
            "occurred_at": "2026-02-25T12:00:30Z",
            "attempt": 3,
            "reason_code": "TASK_RETRY_EXHAUSTED",
            "reason_message": "start_to_close timeout exhausted retries",
            "idempotent_hit": False,
        },
    }


@pytest.mark.contract("T13")
def test_a_birth_is_told_as_such() -> None:
    told = envelope(replace(EVENT, from_state=None, to_state="pending"))

    assert told["type"] == "task_created"
    assert told["payload"]["from_state"] is None


@pytest.mark.contract("T13")
def test_a_task_without_a_given_name_goes_by_its_id() -> None:
    told = envelope(replace(EVENT, subject_name=None))

    assert told["payload"]["task_id"] == "01948a7e-0000-7000-8000-000000000001"


@pytest.mark.contract("T13")
def test_fractions_of_a_second_are_kept() -> None:
    told = envelope(replace(EVENT, at=datetime(2026, 2, 25, 12, 0, 30, 250_000, tzinfo=UTC)))

    assert told["payload"]["occurred_at"] == "2026-02-25T12:00:30.250000Z"
