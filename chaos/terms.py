"""What the processes of a run agree on: short leases, frequent looks, and room to be tried often."""

from __future__ import annotations

TERMS = {
    "FERRYMAN_WORKER__POLL": "0.2s",
    "FERRYMAN_WORKER__GRACE": "5s",
    "FERRYMAN_WORKER__LEASE_SWEEP_SECONDS": "0.2",
    "FERRYMAN_WORKER__SUSPEND_TIMEOUT_SECONDS": "300",
    "FERRYMAN_WORKER__CONCURRENCY": "8",
    "FERRYMAN_WORKER__CLAIM_MAX": "16",
    "FERRYMAN_WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS": "20",
    "FERRYMAN_PMO__DISPATCHED_RETRY_SECONDS": "2",
    "FERRYMAN_PMO__PENDING_WAKEUP_SECONDS": "1",
    "FERRYMAN_TASKS__MAX_RETRIES": "50",
    "FERRYMAN_COMMANDS__UNKNOWN_AFTER_SECONDS": "600",  # who watches may live longer than any who knows the types
    "FERRYMAN_INGEST__CONCURRENCY": "4",
    "FERRYMAN_INGEST__MAX_ATTEMPTS": "50",
    "FERRYMAN_INGEST__MAX_CLAIMS": "500",
    "FERRYMAN_INGEST__BREAKER_PAUSE": "0.5s",
}
# Where lives are short, expired leases are looked for as seldom as by default: who dies before his first look is seen then.
SHORT_LIVES = {"FERRYMAN_WORKER__LEASE_SWEEP_SECONDS": "1"}
RETRIES = 50
# A watchdog is silent after three intervals, which an outage that ends a lease must be.
INTERVAL_OF_LEASE = 0.3
INGEST_OF_LEASE = 1.5
# Who else keeps what has ended.
KEEPERS = ("AGENTS", "PMO", "COMMANDS", "INGEST")


def leased(seconds: float) -> dict[str, str]:
    """Return the terms that hang on the length of a lease."""
    return {
        **TERMS,
        "FERRYMAN_WORKER__LEASE": f"{seconds:g}s",
        "FERRYMAN_WORKER__WATCHDOG_INTERVAL_SECONDS": f"{seconds * INTERVAL_OF_LEASE:g}",
        "FERRYMAN_INGEST__LEASE": f"{seconds * INGEST_OF_LEASE:g}s",
    }


def kept(seconds: float | None) -> dict[str, str]:
    """Return the terms by which what has ended leaves after so long, if that is asked for; the log stays for a day."""
    if seconds is None:
        return {}
    names = ("TASKS__RETENTION", "TASKS__RETENTION_FAILED", *(f"{each}__RETENTION" for each in KEEPERS))
    return {f"FERRYMAN_{name}": f"{seconds:g}s" for name in names}


def told(lease: float) -> str:
    """Say how long leases are and how often somebody looks: by these a recovery is to be judged."""
    return (
        f"leases of {lease:g} s (ingestion {lease * INGEST_OF_LEASE:g} s) that are swept every"
        f" {TERMS['FERRYMAN_WORKER__LEASE_SWEEP_SECONDS']} s, workers that poll every"
        f" {TERMS['FERRYMAN_WORKER__POLL'].removesuffix('s')} s and a watchdog that looks every {lease * INTERVAL_OF_LEASE:g} s"
    )


# Bars are for a run of some minutes; a shorter one has its share of them.
WHOLE_MINUTES = 5.0
# Where this file is, producers wait.
CROWDED = "crowded"
SOURCE = "depot"
RECORDS_OF_A_WINDOW = 120
PAGE = 10
# What the source says is left to ask for, and for how long: plenty for so long, and nothing for an hour.
QUOTA = 40
QUOTA_SECONDS = 2
