"""One function per statement on the tables of agents, by subject."""

from ferryman.agents.store import budgets, cards, heads, inbox, steps, waits

__all__ = ["budgets", "cards", "heads", "inbox", "steps", "waits"]
