"""Documents that list things list all of them."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from pathlib import Path

import pytest

from hyperscale.cli.explain.meanings import MEANINGS
from hyperscale.model import status
from hyperscale.model.api.job import PlannerChoice
from hyperscale.model.decision import Reason

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def words(name: str) -> set[str]:
    return set(re.findall(r"[A-Za-z0-9_.-]+", (ROOT / "docs" / name).read_text()))


def entries() -> set[str]:
    """Reasons that have an entry of their own in the troubleshooting page, with what to do."""
    text = (ROOT / "docs/tasks/troubleshooting.md").read_text()
    parts = re.findall(r"^### ([^\n]*)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    return {name for heading, body in parts if "**Do:** " in body for name in heading.split(", ")}


def direct_dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        project["build-system"]["requires"],
        *(re.findall(r"^[a-z].*", given.read_text(), re.MULTILINE) for given in ROOT.glob("images/*/*.in")),
    ]
    return sorted({re.split(r"[<>=!~\[ ]", requirement)[0] for group in groups for requirement in group})


@pytest.mark.parametrize("package", direct_dependencies())
def test_every_direct_dependency_has_its_reason(package: str) -> None:
    assert package in words("development/dependencies.md")


def test_every_go_tool_has_its_reason() -> None:
    tools = {folder.name for folder in (ROOT / "e2e/cluster/tools").iterdir()}
    assert tools <= words("development/dependencies.md")


@pytest.mark.parametrize("reason", sorted(Reason))
def test_every_reason_is_explained(reason: Reason) -> None:
    assert str(reason) in entries()


@pytest.mark.parametrize("state", sorted(status.StateWord))
def test_every_state_is_explained(state: status.StateWord) -> None:
    assert str(state) in words("reference/conditions.md")


def test_every_reason_of_planners_and_metrics_is_explained() -> None:
    """Found in the source: constants and literals that stand where a reason stands."""
    package = ROOT / "operator/hyperscale"
    found: set[str] = set()
    for path in [*(package / "planner").rglob("*.py"), *(package / "observe").rglob("*.py"), *(package / "model").glob("m*.py")]:
        text = path.read_text()
        found |= set(re.findall(r'reason="([A-Z][A-Za-z]+)"', text))
        found |= set(re.findall(r'return "([A-Z][A-Za-z]+)", f?"', text))
        if path.name in {"trust.py", "child.py", "process.py", "reader.py", "portfolio.py"}:
            found |= set(re.findall(r'^[A-Z_]+: Final = "([A-Z][A-Za-z]+)"', text, re.MULTILINE))
    named = set(PlannerChoice) - {PlannerChoice.AUTO, PlannerChoice.NONE}
    found |= {f"{planner}Failed" for planner in named} | {f"{planner}Unavailable" for planner in named - {PlannerChoice.HEURISTIC}}
    assert {"InsufficientGPUs", "PlannerTimeout", "PrometheusTimeout", "LinksEstimatedFromLabels"} <= found
    assert not found - words("reference/conditions.md") - entries()


def test_every_reason_that_the_command_line_explains_has_an_entry() -> None:
    assert {str(reason) for reason in MEANINGS} <= entries()


def anchors(document: Path) -> set[str]:
    """Of all headings, as the site's generator (Python-Markdown) names them."""
    text = re.sub(r"^(```|~~~).*?^\1", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    plain = (unicodedata.normalize("NFKD", line).encode("ascii", "ignore").decode() for line in headings)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", line).strip().lower()) for line in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_anchor_is_a_heading(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", document.read_text()):
        page = document.parent / target if target else document
        if "://" not in target and page.suffix == ".md":
            assert anchor in anchors(page), f"{target}#{anchor}"


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    nav = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert nav == {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_finds_it(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (document.parent / target).exists(), target


def test_the_rights_of_the_chart_are_all_explained() -> None:
    text = (ROOT / "docs/rbac.md").read_text()
    template = "".join(
        (ROOT / "charts/hyperscale/templates" / name).read_text() for name in ("_helpers.tpl", "rbac.yaml", "agent-rbac.yaml")
    )
    resources = {resource.strip() for line in re.findall(r"resources: \[([^\]]+)\]", template) for resource in line.split(",")}
    assert resources
    for resource in sorted(resources):
        assert resource.split("/")[0] in text, resource


PATH_IN_PAGE = re.compile(r"`([\w-]+(?:/[\w.-]+)+\.(?:py|pyx|yaml|json|md|tpl))`")
MAX_TERMS = 40
MAX_README_LINES = 150


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if "adr" not in path.parts], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_there(document: Path) -> None:
    roots = (ROOT, ROOT / "operator/hyperscale", ROOT / "charts/hyperscale", ROOT / "docs", document.parent)
    assert [path for path in PATH_IN_PAGE.findall(document.read_text()) if not any((root / path).exists() for root in roots)] == []


def test_the_glossary_and_the_readme_stay_short() -> None:
    terms = re.findall(r"^\| (?!term|-)", (ROOT / "docs/reference/glossary.md").read_text().partition("## Older words")[0], re.MULTILINE)
    assert 30 <= len(terms) <= MAX_TERMS
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_README_LINES
