"""`ferryman task`: create tasks, ask about them, stop them."""

from __future__ import annotations

from cyclopts import App

from ferryman.cli.task import cancel, create, look, wait

program = App(name="task", help="Create tasks, ask about them, stop them.", help_format="plaintext")

for _order, _function in enumerate(
    (create.create, look.list_page, look.show, wait.wait, wait.result, look.logs, cancel.cancel)
):
    program.command(_function, name=_function.__name__.partition("_")[0], sort_key=_order)
