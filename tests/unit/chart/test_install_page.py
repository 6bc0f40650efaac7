"""The runner of docs/install.md knows every command of the page. Nothing is installed here."""

from __future__ import annotations

import pytest

from e2e import install, installpage


@pytest.fixture(scope="module")
def page() -> str:
    return installpage.PAGE.read_text()


def test_every_command_of_the_install_pages_steps_is_known_to_the_runner(page: str) -> None:
    commands = installpage.commands(page)
    assert {command.step for command in commands} == {1, 2, 3, 4, 5}
    actions = {command.rule.action for command in commands} - {""}
    assert actions == set(install.ACTIONS)


def test_uninstalling_runs_as_the_page_says(page: str) -> None:
    (command,) = installpage.commands(page, installpage.UNINSTALL)
    assert command.run == command.written


def test_what_does_not_run_as_written_says_why(page: str) -> None:
    for command in installpage.commands(page):
        assert bool(command.rule.action) == bool(command.rule.why), command.written


def test_a_command_that_the_runner_does_not_know_ends_it_with_that_command(page: str) -> None:
    changed = page.replace("        hyperscale doctor\n", "        hyperscale doctor --strict\n")
    assert changed != page
    with pytest.raises(installpage.PageError, match="hyperscale doctor --strict"):
        installpage.commands(changed)


def test_a_long_command_is_one_command_with_its_registry_filled_in(page: str) -> None:
    (helm,) = (command for command in installpage.commands(page) if command.run.startswith("helm install"))
    assert helm.run.count("--set ") == 4
    assert f"image.registry={installpage.REGISTRY} " in helm.run
    assert "\\" not in helm.run
    assert "REGISTRY" not in helm.run


def test_a_page_without_the_steps_is_refused() -> None:
    with pytest.raises(installpage.PageError, match="no section"):
        installpage.commands("# Install\n")
