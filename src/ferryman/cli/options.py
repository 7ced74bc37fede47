"""What every command takes: which database, whose work, and in what form to answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Group, Parameter

from ferryman.app.ferryman import Ferryman
from ferryman.app.wiring import EMBEDDED_FOLDER
from ferryman.cli.screen import Screen
from ferryman.cli.words import flag, says
from ferryman.kernel import errors
from ferryman.kernel.settings import Settings

COMMON = Group("Common options", sort_key=99)


@Parameter(name="*", group=COMMON)
@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every command."""

    database_url: Annotated[str | None, says("PostgreSQL address (else FERRYMAN_DATABASE_URL, else embedded).")] = None
    tenant: Annotated[str | None, says("Whose work (else FERRYMAN_TENANT, else default).")] = None
    schema: Annotated[str | None, says("PostgreSQL schema that holds the tables (else ferryman).")] = None
    json: Annotated[bool, flag("JSON on stdout, and nothing else.")] = False

    @property
    def screen(self) -> Screen:
        """Where answers go."""
        return Screen(json=self.json)

    def overrides(self) -> dict[str, Any]:
        """Return the settings that were given here."""
        given = {"database_url": self.database_url, "tenant": self.tenant, "schema": self.schema}
        return {name: value for name, value in given.items() if value is not None}

    def settings(self) -> Settings:
        """Read the settings."""
        return Settings.load(self.overrides())

    def existing(self) -> Settings:
        """Read the settings of a database that is already there: who only asks does not make one."""
        settings = self.settings()
        if settings.database_url is None and not EMBEDDED_FOLDER.exists():
            raise NoDatabase()
        return settings

    @asynccontextmanager
    async def app(self, named: str | None = None) -> AsyncIterator[Ferryman]:
        """Open an app: the one named, or one that knows no handlers and is a client of others'."""
        from ferryman.cli import apps

        app = Ferryman(settings=self.existing()) if named is None else apps.load(named, self.overrides())
        async with app as opened:
            yield opened


class NoDatabase(errors.DatabaseUnavailable):
    """No database is named, and there is no embedded one in this directory."""

    advice = "Set FERRYMAN_DATABASE_URL or give --database-url; `ferryman dev` makes an embedded one here."
    retryable = False


PLAIN = Options()
