"""What all domains share: machines, leases, retries, payloads, the log. It knows no domain."""
