"""Commands: what was asked for, the async tasks it started, and the orchestrator between them."""
