"""Broken promises, each with a stable code (K20).

One class per code, all in this file however long it gets: a code is looked up here and nowhere else.
The docstring is the sentence a person reads when the raiser gives none;
`advice` says what to do next; `retryable` says whether the same call may succeed later, unchanged.
`details` holds what a program wants to know, in JSON-friendly values.
"""

from typing import Any


class FerrymanError(Exception):
    """Ferryman could not do what was asked."""

    code: str = "FERRYMAN_ERROR"
    advice: str = ""
    retryable: bool = False

    def __init__(self, message: str | None = None, **details: Any) -> None:
        # Without docstrings (python -OO) the code still says what happened.
        sentence = message or (type(self).__doc__ or self.code).partition("\n\n")[0]
        super().__init__(sentence)
        self.message = sentence
        self.details = details

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """Return what a caller outside Python is shown."""
        return {
            "code": self.code,
            "message": self.message,
            "advice": self.advice,
            "retryable": self.retryable,
            "details": self.details,
        }


def said(thing: object) -> str:
    """Return the words of anything, an exception's with its type. What people raise may be broken: this never raises."""
    try:
        text = str(thing)
    except BaseException:  # noqa: BLE001 - whatever its own code raises
        text = "(its message cannot be read)"
    if not issubclass(type(thing), BaseException):
        return text
    return f"{type(thing).__name__}: {text}" if text else type(thing).__name__


class DoNotRetry(Exception):
    """A handler raises this to fail at once, whatever tries are left (T4). Any reason will do: text is made of it."""

    reason: str = "the handler asked not to be retried"  # also of a subclass that does not call this __init__

    def __init__(self, reason: object = None) -> None:
        if reason is not None:
            self.reason = said(reason)
        super().__init__(self.reason)


# Moves


class InvalidTransition(FerrymanError):
    """This move is not legal from the state the row is in."""

    code = "TASK_INVALID_TRANSITION"
    advice = "Read the row again: somebody else may have moved it, and a terminal state is final."

    def __init__(
        self,
        message: str | None = None,
        *,
        code: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        id: str | None = None,
        **details: Any,
    ) -> None:
        if message is None and to is not None:
            who = id if id is not None else "it"
            message = f"Cannot begin {who} as {to}." if from_ is None else f"Cannot move {who} from {from_} to {to}."
        super().__init__(message, **{"from": from_, "to": to, "id": id}, **details)
        if code is not None:
            self.code = code


# How a task ends, or is refused


class TaskTimeout(FerrymanError):
    """The attempt did not finish in its time, or its worker's lease expired."""

    code = "TASK_TIMEOUT"
    advice = "Raise timeout_ms, or split the work into steps."


class TaskExecutionFailed(FerrymanError):
    """The handler raised an error or refused the work."""

    code = "TASK_EXECUTION_FAILED"
    advice = "See the reason and the task's log; mend the handler, then create the task anew."


class TaskRetryExhausted(FerrymanError):
    """The task failed on its last allowed attempt."""

    code = "TASK_RETRY_EXHAUSTED"
    advice = "See last_error_reason for the last cause; mend it, then create the task anew."


class TaskDuplicate(FerrymanError):
    """A task with this task_id or idempotency key exists and differs from the request."""

    code = "TASK_DUPLICATE"
    advice = "Use the existing task, or send the new work under another key."

    def __init__(
        self,
        message: str | None = None,
        *,
        conflict_fields: tuple[str, ...] | list[str] = (),
        existing: Any = None,
        **details: Any,
    ) -> None:
        if message is None and conflict_fields:
            message = f"The existing task differs from the request in {', '.join(conflict_fields)}."
        super().__init__(message, conflict_fields=list(conflict_fields), existing=existing, **details)


class TaskExpired(FerrymanError):
    """The task was not finished by its ends_at and was cancelled."""

    code = "TASK_EXPIRED"
    advice = "Ask `ferryman doctor` who serves its queue and knows its handler; create it again with a later ends_at."


class TaskCancelled(FerrymanError):
    """The task was cancelled."""

    code = "TASK_CANCELLED"
    advice = "Create a new task if the work is still wanted."


class TaskReplayMismatch(FerrymanError):
    """The handler met another step than the one remembered from an earlier attempt."""

    code = "TASK_REPLAY_MISMATCH"
    advice = "Keep the names and order of steps while tasks are in flight, or cancel and recreate."


class TaskStepAmbiguous(FerrymanError):
    """Two parallel branches of a handler call durable steps of one name."""

    code = "TASK_STEP_AMBIGUOUS"
    advice = "Give the steps of each branch names of their own, such as f'fetch-{id}'."


class TaskStepFailed(FerrymanError):
    """A step of a handler raised an error."""

    code = "TASK_STEP_FAILED"
    advice = "Let it pass, and the attempt fails and the step is tried again; or catch it, and it is remembered."


class TaskChildFailed(FerrymanError):
    """A child of this task failed or was cancelled."""

    code = "TASK_CHILD_FAILED"
    advice = "See details: the child's own code and reason."


class TaskWaitTimeout(FerrymanError):
    """The event did not come in its time."""

    code = "TASK_WAIT_TIMEOUT"
    advice = "Catch it where you wait, or give the wait a longer timeout."


class TaskWaitTooLong(FerrymanError):
    """A task cannot wait for longer than it may live."""

    code = "TASK_WAIT_TOO_LONG"
    advice = "Create the task with a later ends_at, or wait for less."


class TaskEnded(FerrymanError):
    """The task has ended: nothing can be sent to it any more."""

    code = "TASK_ENDED"
    advice = "Read the task: its end and its result are final."


class TaskUnknownHandler(FerrymanError):
    """No handler has this name here."""

    code = "TASK_UNKNOWN_HANDLER"
    advice = "Check the name, and that the module which declares the handler is imported."


class TaskInvalidPayload(FerrymanError):
    """The payload is not JSON that can be stored, or does not fit the handler."""

    code = "TASK_INVALID_PAYLOAD"
    advice = "Mend the value at the path given; nothing was stored."


class TaskInvalidResult(FerrymanError):
    """What the handler returned is not JSON that can be stored."""

    code = "TASK_INVALID_RESULT"
    advice = "Return plain JSON values; keep large or binary results elsewhere and return a link."


class TaskInvalidSchedule(FerrymanError):
    """The schedule is incomplete or cannot be understood."""

    code = "TASK_INVALID_SCHEDULE"
    advice = "Mend the field named; nothing was created."

    def __init__(self, message: str | None = None, *, field: str | None = None, **details: Any) -> None:
        super().__init__(message, field=field, **details)


class TaskInvalidRequest(FerrymanError):
    """A field of the request has a value that is not allowed."""

    code = "TASK_INVALID_REQUEST"
    advice = "Mend the field named; nothing was changed."

    def __init__(self, message: str | None = None, *, field: str | None = None, **details: Any) -> None:
        super().__init__(message, field=field, **details)


class QueueInvalid(FerrymanError):
    """What was asked of a queue is not allowed."""

    code = "QUEUE_INVALID"
    advice = "Mend the field named; nothing was changed."

    def __init__(self, message: str | None = None, *, field: str | None = None, **details: Any) -> None:
        super().__init__(message, field=field, **details)


class UnknownQueue(FerrymanError):
    """No queue has this name."""

    code = "UNKNOWN_QUEUE"
    advice = "See `ferryman queue list`; declare a new one with app.queue(), or by `ferryman queue set NAME --new`."


class TaskQueueFull(FerrymanError):
    """The queue holds as many waiting tasks as it may."""

    code = "TASK_QUEUE_FULL"
    advice = "Try again later, or raise the queue's depth."
    retryable = True


class TaskAlreadyLive(FerrymanError):
    """Another task with the same singleton or debounce key has not ended, and this one cannot be answered with it."""

    code = "TASK_ALREADY_LIVE"
    advice = "Wait for that task, named by task_id, or go on without this one."
    retryable = True


class TaskNotFound(FerrymanError):
    """There is no such task for this tenant."""

    code = "TASK_NOT_FOUND"
    advice = "Check the id and the tenant."


class LeaseLost(FerrymanError):
    """The task is not this worker's any more: its lease has passed, it was cancelled, or another has it."""

    code = "TASK_LEASE_LOST"
    advice = "Drop this work and claim the next; whoever has the task goes on, or it has ended."


class WorkerUnknown(FerrymanError):
    """No worker of this tenant was given this secret, or it was forgotten."""

    code = "WORKER_UNKNOWN"
    advice = "Say hello again (POST /v1/worker); what was held under the old secret is taken back when its leases end."


class UnknownId(FerrymanError):
    """Nothing of this tenant has this id."""

    code = "UNKNOWN_ID"
    advice = "Check the id and the tenant; what was kept for long enough is gone."


class ScheduleNotFound(FerrymanError):
    """There is no such schedule for this tenant."""

    code = "SCHEDULE_NOT_FOUND"
    advice = "Check the id and the tenant; `ferryman schedule list` shows them all."


class ScheduleBusy(FerrymanError):
    """A task of this schedule has not ended, and its tasks may not overlap."""

    code = "SCHEDULE_BUSY"
    advice = "Wait for that task, or cancel it; `ferryman schedule show` names it."
    retryable = True


class CallbackUnknown(FerrymanError):
    """The end of this task is owed to an owner that this process does not know."""

    code = "CALLBACK_UNKNOWN"
    advice = "Do it from a process of the app that owns the task."


class CallbackTaken(FerrymanError):
    """Callbacks of this kind are settled by Ferryman itself."""

    code = "CALLBACK_TAKEN"
    advice = "Choose another name for your own kind of callback."


# Agents


class AgentInvalidRequest(FerrymanError):
    """The request for an agent or a turn is not valid."""

    code = "AGENT_INVALID_REQUEST"
    advice = "Correct the named field and send it again; nothing was stored."


class AgentNotFound(FerrymanError):
    """There is no such agent."""

    code = "AGENT_NOT_FOUND"
    advice = "Make it first, and look at the tenant."


class AgentDuplicate(FerrymanError):
    """An agent with this id exists and is of another profile."""

    code = "AGENT_DUPLICATE"
    advice = "Choose another id; an agent keeps its profile."


class BoxNotFound(FerrymanError):
    """There is no such box."""

    code = "BOX_NOT_FOUND"
    advice = "Check the id, and the tenant; boxes go with the turns that they belong to."


class CardNotFound(FerrymanError):
    """There is no such card."""

    code = "CARD_NOT_FOUND"
    advice = "Check the id, and the tenant; cards go with the turns that wrote them."


class CallNotFound(FerrymanError):
    """No turn has made this call."""

    code = "CALL_NOT_FOUND"
    advice = "Check the id of the call, and the tenant; nothing was stored."


class TurnRefused(FerrymanError):
    """The agent did not take the message."""

    code = "TURN_REFUSED"
    advice = "The code in the details says why; nothing was stored."


class TurnDuplicate(TurnRefused):
    """A turn with this key exists and differs from the request."""

    code = "TURN_DUPLICATE"
    advice = (
        "Choose another key, or send the same request again; conflict_fields says what differs. Nothing was stored."
    )


class TurnFailed(FerrymanError):
    """The turn did not succeed."""

    code = "TURN_FAILED"
    advice = "Read its deliverable and its timeline."


class TurnLost(FerrymanError):
    """The turn is not this worker's any more: it was stopped, or another took it over."""

    code = "TURN_LOST"
    advice = "Nothing: whoever has it goes on, or it has ended."


class ToolFailed(FerrymanError):
    """A call of a tool, or of another agent, did not succeed."""

    code = "TOOL_FAILED"
    advice = "Its code says why; a handler may catch this and go on."


class StepFailed(FerrymanError):
    """A step of a turn failed."""

    code = "STEP_FAILED"
    advice = "A handler may catch this and go on; the step is not done again."


class TurnNotFound(FerrymanError):
    """There is no such turn."""

    code = "TURN_NOT_FOUND"
    advice = "Check the id, and the tenant; turns that ended long ago are forgotten."


class BatchRefused(FerrymanError):
    """The batch was not forked."""

    code = "BATCH_REFUSED"
    advice = "The code in the details says why, the field what to correct; nothing was stored."


class BatchDuplicate(BatchRefused):
    """A batch with this key exists and differs from the request."""

    code = "BATCH_DUPLICATE"
    advice = "Choose another key, or send the same request again; the field says what differs."


class BatchNotFound(FerrymanError):
    """There is no such batch."""

    code = "BATCH_NOT_FOUND"
    advice = "Check the id, and the tenant."


# How ingestion ends, or is refused


class IngestInvalidRequest(FerrymanError):
    """A field of what was asked of ingestion has a value that is not allowed."""

    code = "INGEST_INVALID_REQUEST"
    advice = "Mend the field named; no plan was made."

    def __init__(self, message: str | None = None, *, field: str | None = None, **details: Any) -> None:
        super().__init__(message, field=field, **details)


class IngestInvalidWindow(FerrymanError):
    """The window is empty or reversed, or has no instants with their offset."""

    code = "INGEST_INVALID_WINDOW"
    advice = "Give `since` before `until`, both with an offset; no plan was made."


class IngestInvalidExpression(FerrymanError):
    """The expression does not compile."""

    code = "INGEST_INVALID_EXPRESSION"
    advice = "Mend the place named; no plan was made."


class IngestUnknownSource(FerrymanError):
    """No source of this app has this name and endpoint."""

    code = "INGEST_UNKNOWN_SOURCE"
    advice = "Check the name, and that the module which declares the source is imported."


class IngestNotFound(FerrymanError):
    """There is no such plan, run or cursor for this tenant."""

    code = "INGEST_NOT_FOUND"
    advice = "Check the id and the tenant; `ferryman ingest status` shows the plans."


class IngestCursorMoved(FerrymanError):
    """The cursor is not where it was when it was read."""

    code = "INGEST_CURSOR_MOVED"
    advice = "Read it again, and try again."
    retryable = True


class IngestBudgetSpent(FerrymanError):
    """The task has used up its requests, records or seconds; what remains is the planner's."""

    code = "INGEST_BUDGET_SPENT"
    advice = "The rest is a task of its own already; give plans a larger budget if that comes too often."


class IngestReslice(FerrymanError):
    """The slice should be cut smaller; what remains is the planner's."""

    code = "INGEST_RESLICE"
    advice = "The rest is cut already; plan with a shorter step if that comes too often."


class IngestBatchFailed(FerrymanError):
    """A page could not be fetched, read or written."""

    code = "INGEST_BATCH_FAILED"
    advice = "See the reason and the run's black box; mend the source, then plan the window again."


class IngestAuthFailed(FerrymanError):
    """The source refused the credential or the signature."""

    code = "INGEST_AUTH_FAILED"
    advice = "Mend the credential, then plan again: harvest goes on from the cursor."


class IngestPostponed(FerrymanError):
    """The source is not to be asked for a while; the task waits in its line."""

    code = "INGEST_POSTPONED"
    advice = "Nothing is to be done: it goes on by itself."


class IngestLeaseLost(FerrymanError):
    """The executor of this run is gone, or has not renewed its lease."""

    code = "INGEST_LEASE_LOST"
    advice = "Nothing is to be done: the next claim goes on after the last good batch."


class IngestStuck(FerrymanError):
    """The task was claimed too often without coming to an end."""

    code = "INGEST_STUCK"
    advice = "See the black box of its runs for what kills the executors, then plan the window again."


class IngestExpired(FerrymanError):
    """The task, or its slice, still waited at its ends_at."""

    code = "INGEST_EXPIRED"
    advice = "Ask `ferryman doctor` which worker knows the source, then plan the window again."


class IngestInvalidSource(FerrymanError):
    """This source cannot be asked as it is declared."""

    code = "INGEST_INVALID_SOURCE"
    advice = "Mend the field named; nothing was asked."


class IngestInvalidSink(FerrymanError):
    """Nothing can be written to this sink as it is declared."""

    code = "INGEST_INVALID_SINK"
    advice = "Mend the field named; nothing was written."


class IngestSecretMissing(FerrymanError):
    """A source needs a secret that the environment does not hold."""

    code = "INGEST_SECRET_MISSING"
    advice = "Set the variable where the worker runs. Secrets are read at each request and are stored nowhere."


# The log to the outside


class WebhookInvalid(FerrymanError):
    """What was asked of a webhook is not allowed."""

    code = "WEBHOOK_INVALID"
    advice = "Mend the field named; nothing was changed."

    def __init__(self, message: str | None = None, *, field: str | None = None, **details: Any) -> None:
        super().__init__(message, field=field, **details)


class WebhookNotFound(FerrymanError):
    """There is no such webhook for this tenant."""

    code = "WEBHOOK_NOT_FOUND"
    advice = "Check the id or name and the tenant; `ferryman relay webhook list` shows them all."


class WebhookDuplicate(FerrymanError):
    """A webhook of this name exists and differs from the request."""

    code = "WEBHOOK_DUPLICATE"
    advice = "Use the existing one, or another name; or remove it first."


class DeliveryNotFound(FerrymanError):
    """There is no such delivery for this tenant."""

    code = "DELIVERY_NOT_FOUND"
    advice = "Check the id and the tenant; what was kept for long enough is gone."


class DeliveryNotDead(FerrymanError):
    """Only a dead delivery of a webhook that is still there can be tried anew."""

    code = "DELIVERY_NOT_DEAD"
    advice = "See `ferryman relay webhook deliveries`."


class WebhookUndelivered(FerrymanError):
    """The receiver did not take an event in all the tries and the time it was given."""

    code = "WEBHOOK_UNDELIVERED"
    advice = "See last_error; mend the receiver, then `ferryman relay webhook retry`."


class SignatureInvalid(FerrymanError):
    """The signature of the call does not fit its body and the secret."""

    code = "WEBHOOK_SIGNATURE_INVALID"
    advice = "Answer 401. If the call is ours: check the body as it came over the wire, not parsed and written anew."


class RelayRefused(FerrymanError):
    """The stream on the NATS server is not one that this log may be published to."""

    code = "RELAY_REFUSED"
    advice = "Set relays.stream to a name of its own for each database, or mend the stream."


# The ground below


class DatabaseUnavailable(FerrymanError):
    """The database cannot be reached, or did not answer in time."""

    code = "DATABASE_UNAVAILABLE"
    advice = "Try again; with an idempotency key a repeat is safe even if the first try committed."
    retryable = True

    def __init__(
        self,
        message: str | None = None,
        *,
        narrow: bool = False,
        locked: bool = False,
        unfinished: bool = False,
        **details: Any,
    ) -> None:
        super().__init__(message, **details)
        self.narrow = narrow  # it may be about a few rows: what stands beside them can go on (kernel/outage.py)
        self.locked = locked  # somebody else holds what was wanted: of a set, such a one is no bad one
        self.unfinished = unfinished  # it was broken off in the middle: there may be too much of it for the time it has


class DatabaseDamaged(DatabaseUnavailable):
    """PostgreSQL cannot read a page of its own."""

    code = "DATABASE_DAMAGED"
    advice = (
        "Whatever has to pass this page waits until it is mended: an index by REINDEX INDEX, a table from a backup "
        "(docs/guide/when-things-die.md). Nothing else has to be done then: work goes on by itself."
    )


class DatabaseRefused(FerrymanError):
    """PostgreSQL does not let this user in, or not at these tables."""

    code = "DATABASE_REFUSED"
    advice = (
        "Set FERRYMAN_DATABASE_URL to a user, password and database that exist, and let that user use the schema: "
        "GRANT what it lacks, or migrate as the user that works."
    )

    def __init__(self, message: str | None = None, *, login: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        # Whoever is not let in has lost nothing and may come back (a password is being changed, a database moved). A
        # statement that is not allowed fails alone: it must not hold up those beside it.
        self.retryable = login
        self.narrow = not login


class ConnectionUnfit(FerrymanError):
    """The connection given is not one that can carry a transaction for us."""

    code = "CONNECTION_UNFIT"
    advice = "Give an open transaction of the database that holds the tasks, or leave `connection` out."


class StatementRefused(FerrymanError):
    """PostgreSQL refused a statement of ours."""

    code = "STATEMENT_REFUSED"
    advice = "Nothing was changed. If what you gave is sound, this is a defect of ours: please report it."


class DatabaseNotMigrated(FerrymanError):
    """The database does not have the tables this version needs."""

    code = "DATABASE_NOT_MIGRATED"
    advice = "Run `ferryman migrate`."


class DatabaseTooOld(FerrymanError):
    """This PostgreSQL is older than version 15."""

    code = "DATABASE_TOO_OLD"
    advice = "Use PostgreSQL 15 or later."


class MigrationEdited(FerrymanError):
    """A migration that was already applied differs from the file shipped with this version."""

    code = "MIGRATION_EDITED"
    advice = "Install the release the database was migrated with; never edit an applied migration."


class MigrationFailed(FerrymanError):
    """A migration could not be applied."""

    code = "MIGRATION_FAILED"
    advice = "Nothing of a file that goes in one transaction was kept; mend the cause and run `ferryman migrate` again."


class DatabaseTooNew(FerrymanError):
    """The database was migrated by a later release that this one cannot work with."""

    code = "DATABASE_TOO_NEW"
    advice = "Install the release the database was migrated with, or a later one."


class EmbeddedUnavailable(FerrymanError):
    """The embedded PostgreSQL cannot be started."""

    code = "EMBEDDED_UNAVAILABLE"
    advice = "Or set FERRYMAN_DATABASE_URL to a PostgreSQL of your own."


class SettingsInvalid(FerrymanError):
    """A setting is unknown or has a value that is not allowed."""

    code = "SETTINGS_INVALID"
    advice = "`ferryman config` shows every setting, its value and where it came from."


class NotOpen(FerrymanError):
    """The app was used before it was opened, or after it was closed."""

    code = "NOT_OPEN"
    advice = "Use `async with app:`, or await app.open() first."


class OpenElsewhere(FerrymanError):
    """The app is open in another event loop, and its connections belong to that one."""

    code = "OPEN_ELSEWHERE"
    advice = "Close it there first, or open another app: `Client(address)` makes one of its own."


class WorkerBroken(FerrymanError):
    """A part of this worker has died, so it has handed back its work and stopped."""

    code = "WORKER_BROKEN"
    advice = "Start it again. The log tells the cause, which is a defect of ours: please report it."


class HandlerInvalid(FerrymanError):
    """This function cannot be a handler as it is declared."""

    code = "HANDLER_INVALID"
    advice = "See the message for what the declaration lacks."


# What a person typed


class UsageInvalid(FerrymanError):
    """The command cannot be understood."""

    code = "USAGE_INVALID"
    advice = "Add --help to see what it takes."


class AppNotLoaded(FerrymanError):
    """The app named by --app cannot be loaded."""

    code = "APP_NOT_LOADED"
    advice = (
        "Name it as module:attribute, such as --app shop.tasks:app, from a directory where `import shop.tasks` works."
    )


# What comes over HTTP


class Unauthenticated(FerrymanError):
    """Nobody is known who asks like this."""

    code = "UNAUTHENTICATED"
    advice = "Send a token: `Authorization: Bearer fm_...`. `ferryman token create` makes one."


class Forbidden(FerrymanError):
    """Whoever asks may not do this."""

    code = "FORBIDDEN"
    advice = (
        "Use a token with the scope and the tenant that it needs; `ferryman token create --help` tells how to make one."
    )


class TenantChanged(FerrymanError):
    """The tenant was changed in another tab; load the page again."""

    code = "TENANT_CHANGED"
    advice = (
        "Nothing was done. The page shows another tenant than the one chosen since; loaded again it shows that one."
    )


class RouteUnknown(FerrymanError):
    """There is nothing at this address."""

    code = "ROUTE_UNKNOWN"
    advice = "See /docs, or /openapi.json, for what there is."


class MethodRefused(FerrymanError):
    """This address does not take this method."""

    code = "METHOD_REFUSED"
    advice = "See /docs, or /openapi.json, for what it takes."


class RequestInvalid(FerrymanError):
    """The request cannot be understood."""

    code = "REQUEST_INVALID"
    advice = "See details for the field and what is expected there; /openapi.json describes every request."


class BodyTooLarge(FerrymanError):
    """The body of this request is larger than the server reads."""

    code = "BODY_TOO_LARGE"
    advice = "Send less, or raise the setting http.body_limit."


class MediaUnknown(FerrymanError):
    """The body of this request is in a form that the server does not read."""

    code = "MEDIA_UNKNOWN"
    advice = "Send JSON, with Content-Type: application/json."


class HeadTooLarge(FerrymanError):
    """The address or the headers of this request are larger than the server reads."""

    code = "REQUEST_HEAD_TOO_LARGE"
    advice = "Send fewer and shorter headers, and what is long in the body."


class HostRefused(FerrymanError):
    """This server does not answer to the name that the request was sent to."""

    code = "HOST_REFUSED"
    advice = (
        "Ask for localhost; or make a token (`ferryman token create`), and name the host in the setting http.hosts."
    )


class RequestTimedOut(FerrymanError):
    """The request took longer than one may take."""

    code = "REQUEST_TIMED_OUT"
    advice = "Send it again, with the same Idempotency-Key; or raise the setting http.request_time."
    retryable = True


class RateExceeded(FerrymanError):
    """Requests come faster than this caller may send them."""

    code = "RATE_EXCEEDED"
    advice = "Wait as long as Retry-After says, or raise the setting http.rate."
    retryable = True


# Tokens


class TokenInvalid(FerrymanError):
    """This cannot be made a token."""

    code = "TOKEN_INVALID"
    advice = "See details.field for the field; `ferryman token create --help` tells what is expected."

    def __init__(self, message: str | None = None, *, field: str | None = None, **details: Any) -> None:
        super().__init__(message, field=field, **details)


class TokenNotFound(FerrymanError):
    """There is no such token."""

    code = "TOKEN_NOT_FOUND"
    advice = "`ferryman token list --all` shows those there are, of every tenant."


class TokenDuplicate(FerrymanError):
    """A token of this name exists; its secret was shown when it was made, and is not kept."""

    code = "TOKEN_DUPLICATE"
    advice = "Revoke it (`ferryman token revoke`), or take another name."


# Payloads that are stored under a codec


class PayloadSealed(FerrymanError):
    """This was stored by a codec that this process does not have, or cannot be read with."""

    code = "PAYLOAD_SEALED"
    advice = "Give the app the codec, and the key, that it was stored with: Ferryman(codec=...)."


# Commands


class CommandInvalidRequest(FerrymanError):
    """The request for a command, or the result of one of its tasks, cannot be accepted."""

    code = "COMMAND_INVALID_REQUEST"
    advice = "Mend the field that the message names; nothing was stored."


class CommandInvalidMapping(FerrymanError):
    """The function that maps a command or a result returned what cannot be understood."""

    code = "COMMAND_INVALID_MAPPING"
    advice = "Return a Message, a Fact, a list of them, or None."


class CommandDuplicate(FerrymanError):
    """A command with this idempotency key exists and differs from this one."""

    code = "COMMAND_DUPLICATE"
    advice = "Use a new idempotency key, or send the same command type and session."


class CommandNotFound(FerrymanError):
    """There is no such command."""

    code = "COMMAND_NOT_FOUND"
    advice = "Commands are found by the id that their send answered with, within their tenant."


class CommandUnknownType(FerrymanError):
    """No living worker knows how to map commands or results of this type."""

    code = "COMMAND_UNKNOWN_TYPE"
    advice = "Register a function with @app.on_command or @app.on_result, and start a worker of that app."


class CapabilityUnknown(FerrymanError):
    """No living worker has this capability."""

    code = "CAPABILITY_UNKNOWN"
    advice = (
        "Register a function with @app.capability and start a worker of that app, or send the message outside=True."
    )


class CommandFailed(FerrymanError):
    """The command has failed."""

    code = "COMMAND_FAILED"
    advice = "`ferryman command story` tells which of its tasks failed, and why."


class CommandCancelled(FerrymanError):
    """The command was cancelled."""

    code = "COMMAND_CANCELLED"
    advice = "Send it again if it is wanted after all."


class CommandTimeout(FerrymanError):
    """The command, or one of its tasks, had not ended at its deadline."""

    code = "COMMAND_TIMEOUT"
    advice = "Give it a longer deadline, or look at what it waited for: `ferryman command story`."


class AsyncTaskNotFound(FerrymanError):
    """There is no such async task."""

    code = "ASYNC_TASK_NOT_FOUND"
    advice = "`ferryman command story` lists the async tasks of a command with their ids."


class AsyncTaskEnded(FerrymanError):
    """The async task has ended; a result that comes later changes nothing."""

    code = "ASYNC_TASK_ENDED"
    advice = "Nothing needs to be done: the first end counts."


class AsyncTaskLost(FerrymanError):
    """The task that ran this capability has ended without telling its end."""

    code = "ASYNC_TASK_LOST"
    advice = "This is a defect of ours: please report it."
