"""What options take one of. Written out, so that shells complete it and a wrong one is refused before anything is asked."""

from __future__ import annotations

from typing import Literal

TaskState = Literal["pending", "ready", "running", "succeeded", "failed", "cancelled"]
LiveState = Literal["pending", "ready", "running"]
LostState = Literal["failed", "cancelled"]
ScheduleState = Literal["active", "paused", "ended"]
CatchUp = Literal["latest", "all", "none"]
Overlap = Literal["allow", "skip", "cancel_previous"]
AgentStatus = Literal["idle", "dispatched", "running", "suspended"]
WhenBusy = Literal["enqueue", "reject", "interrupt", "merge"]
BatchStatus = Literal["running", "success", "failed", "timeout", "partial"]
WebhookState = Literal["active", "paused", "disabled"]
DeliveryState = Literal["pending", "delivered", "dead"]
Operation = Literal["HARVEST", "BACKFILL", "UPDATE"]
