"""What a state feels like: six colours for all domains, by the names that the style sheet gives them."""

from __future__ import annotations

GREEN, RED, AMBER, BLUE, VIOLET, GREY = "green", "red", "amber", "blue", "violet", "grey"

_COLOURS = {
    GREEN: ("success", "succeeded", "completed", "consumed", "applied", "delivered", "active"),
    RED: ("failed", "timeout", "error", "expired", "dead", "disabled"),
    AMBER: ("partial", "canceled", "cancelled", "skipped", "dropped", "paused"),
    BLUE: ("running", "processing", "executing", "dispatched", "slicing", "started"),
    VIOLET: ("suspended", "pending", "queued", "received", "waiting", "planned", "ready", "draft"),
}
_OF = {state: colour for colour, states in _COLOURS.items() for state in states}


def colour(state: object) -> str:
    """Return the colour of a state; one that is not known is grey."""
    # A plan that is READY has all that it needs; a task that is ready waits for a worker.
    return GREEN if state == "READY" else _OF.get(str(state).lower(), GREY)
