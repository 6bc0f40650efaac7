"""Faults of the history's URL: no secret is printed, and each is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperscale.cli.doctor.doctor_history import _asked
from hyperscale.control.history.database import masked_source
from hyperscale.control.history.run_store import HistoryError, RunStore

ADDRESS = "127.0.0.1:1/db"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:SE@SECRET@{ADDRESS}",
        f"postgresql://u:SE@SEC/SECRET@{ADDRESS}",
        f"postgresql://u:SE/SECRET@{ADDRESS}",
        f"postgresql://u:SE%40SECRET@{ADDRESS}",
        f"postgresql://{ADDRESS}?user=u&pasword=SECRET",
        f"postgresql://{ADDRESS}?password=SECRET&password=SECRET",
        "postgresql:/u:SECRET@h/db",
        "u:SECRET@h/db",
        "sqlite://u:SECRET@h/db",
        "sqlite://u:SE%40SECRET@h/db",
    ],
)
def test_no_fault_prints_a_secret(url: str) -> None:
    with pytest.raises(HistoryError) as caught:
        RunStore(url, make=False)
    assert "SECRET" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_names_of_options_are_printed() -> None:
    with pytest.raises(HistoryError, match=r"sslmode=nope.*pasword"):
        RunStore(f"postgresql://{ADDRESS}?sslmode=nope&pasword=SECRET", make=False)


@pytest.mark.parametrize("option", ["timeout=abc", "detect_types=x"])
def test_an_option_that_no_driver_takes_is_one_line(tmp_path: Path, option: str) -> None:
    RunStore(f"sqlite:///{tmp_path}/h").close()
    with pytest.raises(HistoryError) as caught:
        RunStore(f"sqlite:///{tmp_path}/h?{option}", make=False)
    assert len(str(caught.value).splitlines()) == 1


def test_a_password_with_an_at_sign_asks_for_its_code() -> None:
    with pytest.raises(HistoryError, match="%40 for an @ in the password"):
        RunStore("postgresql://u:a@b@h/db", make=False)
    assert _asked(f"postgresql://u:SE@SECRET@{ADDRESS}", 1.0) == "the password has an @; write it as %40"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("u:SECRET@h/db", "u:***@h/db"),
        ("postgresql:/u:SE@SECRET@h/db", "postgresql:***@h/db"),
        ("postgresql//u:SE:SE\nSECRET@h", "postgresql//u:***@h"),
        ("plain.sqlite", "plain.sqlite"),
    ],
)
def test_a_name_that_looks_like_an_account_is_masked(source: str, shown: str) -> None:
    assert masked_source(source) == shown
