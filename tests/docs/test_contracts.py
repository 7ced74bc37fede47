from pathlib import Path

import pytest

from tools import contracts

PAGE = """# K: what all share

### K2 · A doorbell only saves waiting
Words.

### K10 · Event log
Words about K2.

### K1 · PostgreSQL is the truth
"""
TESTS = """
import pytest

@pytest.mark.contract("K1", "K10")
async def test_one() -> None: ...

class TestTwo:
    @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.contract("K10"))])
    def test_inside(self, n: int) -> None: ...
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs/contracts").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "docs/contracts/kernel.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "tests/test_it.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def test_rules_come_in_the_order_of_their_numbers(project: Path) -> None:
    assert [rule.id for rule in contracts.rules(project)] == ["K1", "K2", "K10"]


def test_a_rule_is_listed_with_the_tests_that_name_it(project: Path) -> None:
    table = contracts.gather(contracts.rules(project), contracts.proofs(project))

    assert {rule.id: tests for rule, tests in table.items()} == {
        "K1": ["tests/test_it.py::test_one"],
        "K2": [],
        "K10": ["tests/test_it.py::TestTwo::test_inside", "tests/test_it.py::test_one"],
    }


def test_only_prints_just_the_ids_without_a_test(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert contracts.main(["--only", "K,T"], root=project) == 1
    assert capsys.readouterr() == ("K2\n", "")


def test_only_is_silent_and_content_when_everything_is_proven(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert contracts.main(["--only", "K1,K10"], root=project) == 0
    assert capsys.readouterr() == ("", "")


def test_a_tag_that_names_no_rule_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests/test_more.py").write_text(TESTS.replace("K10", "K99"), encoding="utf-8")

    assert contracts.main(["--check"], root=project) == 2
    assert "K99, which is no rule" in capsys.readouterr().err


def test_a_rule_may_stand_on_one_page_only(project: Path) -> None:
    (project / "docs/contracts/more.md").write_text(PAGE, encoding="utf-8")

    with pytest.raises(contracts.Wrong, match="already a rule of kernel"):
        contracts.rules(project)


def test_a_heading_that_is_almost_a_rule_is_refused(project: Path) -> None:
    (project / "docs/contracts/tasks.md").write_text("## T1 States\n", encoding="utf-8")

    with pytest.raises(contracts.Wrong, match="write `### T1 · title`"):
        contracts.rules(project)


def test_a_tag_must_be_readable_without_running_it(project: Path) -> None:
    (project / "tests/test_more.py").write_text(TESTS.replace('"K1"', "some_rule"), encoding="utf-8")

    with pytest.raises(contracts.Wrong, match="plain strings"):
        contracts.proofs(project)


def test_the_pages_and_tags_of_this_project_are_well_formed() -> None:
    assert contracts.main(["--check"]) == 0
