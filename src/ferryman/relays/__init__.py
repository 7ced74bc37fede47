"""The log to the outside: NATS JetStream and signed webhooks (K10)."""
