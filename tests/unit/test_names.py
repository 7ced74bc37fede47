import subprocess
import sys

import pytest

import ferryman


def test_every_public_name_can_be_had() -> None:
    assert all(getattr(ferryman, name) is not None for name in ferryman.__all__)


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Feryman'"):
        ferryman.Feryman  # noqa: B018 - the access is the test


def test_the_package_alone_does_not_import_the_driver() -> None:
    asked = "import ferryman, sys; sys.exit('asyncpg' in sys.modules)"
    env = {"PYTHONPATH": ":".join(part for part in sys.path if part)}

    assert subprocess.run([sys.executable, "-c", asked], env=env, check=False).returncode == 0


@pytest.mark.contract("P14")
def test_who_declares_handlers_does_not_load_what_joins_the_domains() -> None:
    asked = """
import sys
from ferryman import Ferryman
app = Ferryman()
app.task(name="nothing")(lambda: None)
sys.exit(any(each.startswith("ferryman.app.wiring.") for each in sys.modules))
"""

    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
