"""`ferryman batch show` and `list`: a batch as a tree, which fills in while somebody looks."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import UUID

from rich.live import Live
from rich.text import Text
from rich.tree import Tree as Drawing

from ferryman.app.batches import Batches
from ferryman.app.doctor import plain
from ferryman.batches.intake.read import Tree
from ferryman.batches.model import BatchRecord, TaskRecord
from ferryman.cli import choices, exits, spelling
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.words import flag, says
from ferryman.kernel import errors, payload
from ferryman.tasks.rules.request import as_uuid

LOOK_SECONDS = 0.2
SHOWN = 80
STYLES = {
    "success": "green", "partial": "yellow", "failed": "red", "timeout": "red", "canceled": "yellow", "running": "cyan",
    "dispatched": "cyan", "pending": "blue",
}  # fmt: skip


async def show(
    batch: Annotated[str, says("Its id.")],
    /,
    *,
    follow: Annotated[bool, flag("Go on until it has ended.")] = False,
    options: Options = PLAIN,
) -> int:
    """Show a batch with its tasks, and the batches that they forked, as a tree."""
    async with options.app() as app:
        id = batch_id(batch)
        if follow:
            return await until_end(app.batches, id, options.screen)
        tree = await app.batches.tree(id)
    tell(options.screen, tree)
    return exits.OK


async def list_page(
    *,
    status: Annotated[choices.BatchStatus | None, says("With this status only.")] = None,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    before: Annotated[str | None, says("Go on before this batch: the last one of the page before.")] = None,
    options: Options = PLAIN,
) -> None:
    """List batches, newest first."""
    async with options.app() as app:
        edge = None if before is None else batch_id(before)
        page = await app.batches.list(status=status, before=edge, limit=limit)
    screen = options.screen
    if screen.json:
        screen.document({"batches": [batch_json(each) for each in page]})
        return
    rows = (
        (each.id, each.status, each.task_count, each.created_at, _took(each), each.parent_agent_id) for each in page
    )
    screen.table(("batch", "status", "tasks", "created", "took", "forked by"), rows)
    if not page:
        screen.say("There are none.")


async def until_end(batches: Batches, id: UUID, screen: Screen) -> int:
    """Draw a batch until it has ended; where nobody looks it is drawn once, at its end."""
    if screen.json or not screen.out.is_terminal:
        await batches.wait(id)
        tell(screen, await batches.tree(id))
    else:
        with Live(console=screen.out, auto_refresh=False) as live:
            while True:
                tree = await batches.tree(id)
                live.update(drawn(tree), refresh=True)
                if tree.batch.terminal:
                    break
                await asyncio.sleep(LOOK_SECONDS)
    return exits.OK if (await batches.get(id)).status == "success" else exits.FAILED


def tell(screen: Screen, tree: Tree) -> None:
    """Write a tree, for a person or a program."""
    if screen.json:
        screen.document(tree_json(tree))
    else:
        screen.out.print(drawn(tree))


def drawn(tree: Tree) -> Drawing:
    """Return a batch as a drawing: its tasks below it, and theirs below them."""
    drawing = Drawing(_batch_line(tree))
    for task in tree.tasks:
        branch = drawing.add(_task_line(task))
        for under in tree.under.get(task.id, ()):
            branch.add(drawn(under))
    return drawing


def _batch_line(tree: Tree) -> Text:
    batch = tree.batch
    done = sum(each.finished_at is not None for each in tree.tasks)
    line = Text.assemble(f"batch {batch.id} ", _word(batch.status), f" {done}/{batch.task_count}")
    more = [_took(batch), batch.reason or "", "fail fast" if batch.fail_fast else ""]
    return line.append("".join(f"  {each}" for each in more if each), style="dim")


def _task_line(task: TaskRecord) -> Text:
    view = payload.decode(task.metadata).get("result_view") or {}
    said = task.error_detail or view.get("digest") or ""
    if task.error_detail and view.get("digest"):
        said = f"{task.error_detail}: {view['digest']}"
    line = Text.assemble(f"{task.task_index:>3} ", _word(f"{task.status:<10}"), " ", spelling.clean(task.agent_id))
    return line.append(f"  {spelling.clean(str(said))[:SHOWN]}", style="dim")


def _word(status: str) -> Text:
    return Text(status, style=STYLES.get(status.strip(), ""))


def _took(batch: BatchRecord) -> str:
    return "" if batch.finished_at is None else spelling.seconds((batch.finished_at - batch.created_at).total_seconds())


def batch_json(batch: BatchRecord) -> dict[str, Any]:
    """Return a batch for a program."""
    return {name: plain(value) for name, value in batch._asdict().items()}


def tree_json(tree: Tree) -> dict[str, Any]:
    """Return a tree for a program."""
    tasks = [
        {
            **{name: plain(value) for name, value in task._asdict().items()},
            "batches": [tree_json(each) for each in tree.under.get(task.id, ())],
        }
        for task in tree.tasks
    ]
    return {"batch": batch_json(tree.batch), "tasks": tasks}


def batch_id(text: str) -> UUID:
    """Read the id of a batch."""
    found = as_uuid(text)
    if found is None:
        raise errors.UsageInvalid(f"Expected the id of a batch, got {text!r}.")
    return found
