"""Agents: durable identities that do one turn at a time, suspend on tools, and always end with a deliverable."""
