"""Ferryman: durable orchestration for AI agents, background work and ingestion, on PostgreSQL."""
