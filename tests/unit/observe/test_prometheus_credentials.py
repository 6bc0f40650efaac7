"""Files of credentials and authorities that cannot be used are named; fields that contradict each other are refused."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.settings import SettingsError, from_environment
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.metrics_reading import NOT_CONFIGURED
from hyperscale.observe.prometheus import credentials
from hyperscale.observe.prometheus.credentials import Access
from hyperscale.observe.prometheus.reader import PrometheusReader, QueryError
from tests.unit.observe.stub_prometheus import Handler, serving

SECRET = "hidden-4711"


def written(folder: Path, **files: bytes) -> Access:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return Access(**{f"{name}_file": str(folder / name) for name in files})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"token": b""}, "token holds nothing"),
        ({"token": b"\n"}, "token holds nothing"),
        ({"token": b"one\ntwo"}, "token holds several lines"),
        ({"token": b"Bearer abc"}, "token holds characters that no bearer token has"),
        ({"token": "schlüssel".encode()}, "token holds characters that no bearer token has"),
        ({"token": b"\xff\xfe"}, "token holds no text"),
        ({"token": b"x" * 20_000}, "token is longer than 16384 bytes"),
        ({"username": b"a:b", "password": b"x"}, "username holds a colon"),
        ({"username": b"a", "password": b"\0"}, "password holds nothing|password holds several lines"),
        ({"ca": b"no certificate"}, "ca holds no PEM certificate"),
        ({"ca": b""}, "ca holds no PEM certificate"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_without_its_content(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    with pytest.raises(credentials.CredentialsError, match=message):
        credentials.read(written(tmp_path, **files))


def test_a_file_that_is_missing_ends_a_reading_with_its_own_reason(tmp_path: Path) -> None:
    reader = PrometheusReader("http://127.0.0.1:1", Access(token_file=str(tmp_path / "token")))
    state = reader.read(PolicySpec(), 1.0).state
    assert (state.available, state.reason) == (False, "PrometheusCredentials")
    assert f"{tmp_path}/token cannot be read (No such file or directory)" in state.message
    with pytest.raises(QueryError, match="PrometheusCredentials"):
        reader.instant("up", 1.0)


def test_without_a_url_no_file_is_read() -> None:
    assert PrometheusReader("", Access(token_file="/nowhere")).read(PolicySpec(), 1.0).state == NOT_CONFIGURED


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1))
def test_any_password_of_one_line_reaches_the_server_and_no_message(tmp_path_factory: pytest.TempPathFactory, password: str) -> None:
    folder = tmp_path_factory.mktemp("pair")
    found = credentials.read(written(folder, username=b"reader", password=password.encode() + b"\n"))
    assert found.headers["Authorization"].isascii()
    assert found.headers["Authorization"].removeprefix("Basic ") not in found.hide(str(found.headers))
    assert "Basic" not in repr(found)


def test_what_a_server_repeats_of_a_secret_reaches_no_message(tmp_path: Path) -> None:
    def repeat(handler: Handler, query: str) -> None:
        handler.reply(f"what is {handler.headers['Authorization']}?".encode(), 422)

    access = written(tmp_path, token=SECRET.encode())
    with serving(repeat) as (url, _):
        message = PrometheusReader(url, access).read(PolicySpec(), 1.0).state.message
    assert "what is Bearer …?" in message
    assert SECRET not in message


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_denies_access_is_asked_once_for_a_reading(tmp_path: Path, status: int) -> None:
    with serving(lambda handler, query: handler.reply(b"", status)) as (url, asked):
        state = PrometheusReader(url, written(tmp_path, token=b"x")).read(PolicySpec(), 1.0).state
    assert state.reason == "PrometheusDenied"
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"token_file": "/t", "username_file": "/u", "password_file": "/p"}, "token_file"),
        ({"username_file": "/u"}, "password_file"),
        ({"password_file": "/p"}, "username_file"),
        ({"tenant": "a\r\nX-Admin: yes"}, "tenant"),
        ({"tenant": "é"}, "tenant"),
        ({"tenant_header": "Authorization"}, "tenant_header"),
        ({"tenant_header": "a b"}, "tenant_header"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_with_their_variable(fields: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=f"^HYPERSCALE_PROMETHEUS_{named.upper()}: "):
        from_environment({f"HYPERSCALE_PROMETHEUS_{name.upper()}": text for name, text in fields.items()})


def test_settings_hold_the_paths_of_secrets_and_never_their_content(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    os.chmod(tmp_path / "token", 0o400)
    settings = from_environment({"HYPERSCALE_PROMETHEUS_TOKEN_FILE": str(tmp_path / "token")})
    assert settings.prometheus_access == Access(token_file=str(tmp_path / "token"))
    assert SECRET not in repr(settings) + msgspec.json.encode(settings).decode()
