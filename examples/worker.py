"""A worker that knows nothing of Ferryman but its HTTP: the standard library is enough. The same in JavaScript: worker.mjs.

    python examples/worker.py http://127.0.0.1:8420

It runs two handlers, `shout` and `nap`, one task at a time. A thread keeps the lease of what runs. While the server is away
it asks again every second. With FERRYMAN_TOKEN set, it shows that token.
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request

URL = sys.argv[1].rstrip("/")
HEADERS = {"Content-Type": "application/json"}
if os.environ.get("FERRYMAN_TOKEN"):
    HEADERS["Authorization"] = f"Bearer {os.environ['FERRYMAN_TOKEN']}"


class Refused(Exception):
    """The server said no; asking again would not help."""


def post(path: str, **body: object) -> dict:
    """Send a request until it is answered.

    All of the protocol may be repeated: ends are fenced, and a claim says what is held.
    """
    sent = urllib.request.Request(f"{URL}/v1/worker{path}", json.dumps(body).encode(), HEADERS)
    while True:
        try:
            with urllib.request.urlopen(sent, timeout=90) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            problem = json.load(error)
            if not problem["retryable"]:
                raise Refused(problem["code"]) from None
        except OSError as error:
            print("no server:", error, flush=True)
        time.sleep(1)


def shout(payload: dict) -> str:
    """Return a text in capitals."""
    if "text" not in payload:
        raise ValueError("there is no text to shout")
    return payload["text"].upper()


def nap(payload: dict) -> float:
    """Do nothing for some seconds."""
    print("napping", flush=True)
    time.sleep(payload["seconds"])
    return payload["seconds"]


HANDLERS = {"shout": shout, "nap": nap}


def keep(worker: str, task: dict, ended: threading.Event, seconds: float) -> None:
    """Renew the lease of one task until it has ended."""
    while not ended.wait(seconds):
        post("/heartbeat", worker=worker, held=[{"id": task["id"], "epoch": task["epoch"]}])


def run(worker: str, task: dict, beat_seconds: float) -> None:
    """Run one task, and tell what became of it."""
    claim = {"worker": worker, "id": task["id"], "epoch": task["epoch"]}
    ended = threading.Event()
    threading.Thread(target=keep, args=(worker, task, ended, beat_seconds), daemon=True).start()
    try:
        result = HANDLERS[task["name"]](task["payload"])
    except Exception as error:  # noqa: BLE001 - whatever it is, the try has failed
        post("/fail", **claim, reason=f"{type(error).__name__}: {error}")
    else:
        post("/complete", **claim, result=result)
    finally:
        ended.set()


def work() -> None:
    """Say hello, then claim and run, for ever."""
    greeted = post("", handlers=list(HANDLERS), host="example", pid=os.getpid(), version="1")
    print("ready", flush=True)
    while True:
        # One task at a time: between two tasks nothing is held, and what a lost answer left behind is handed back.
        for task in post("/claim", worker=greeted["worker"], limit=1, wait=30, holds=[])["tasks"]:
            try:
                run(greeted["worker"], task, greeted["beat_seconds"])
            except Refused as refused:
                print("lost", task["id"], refused, flush=True)  # somebody else has it, or it has ended


while True:
    try:
        work()
    except Refused as refused:
        if str(refused) != "WORKER_UNKNOWN":
            raise
        # Forgotten after a long silence: say hello again.
