"""What the operator serves of its next plan: to those with the key, bounded, made seldom, naming no job."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from e2e.cluster.ports import free_ports
from hyperscale.control.controller import preview_server
from hyperscale.control.controller.preview_server import PreviewServer
from hyperscale.control.telemetry import listener
from hyperscale.model.plan import Calibration, Plan
from hyperscale.model.preview import KEY_HEADER, PATH, VERSION, PreviewState, from_lines
from tests.corpus.queue_stage import Stage

KEY = "k" * 64


def served(stage: Stage) -> preview_server.Previews:
    return preview_server.Previews(stage.cache, stage.reader, stage.planning.pending, stage.planning.running, False, lambda: stage.now)


@asynccontextmanager
async def listening(stage: Stage, folder: Path, key: str = KEY, ready: str = "") -> AsyncIterator[str]:
    """URL of the document."""
    file = folder / "key"
    if key:
        file.write_text(key + "\n")
    (port,) = free_ports(1)
    server = PreviewServer(served(stage), lambda: ready, file)
    await server.start(port)
    try:
        yield f"http://127.0.0.1:{port}{PATH}"
    finally:
        await server.stop()


async def answer(url: str, key: str | None = KEY, **options: object) -> tuple[int, bytes, str]:
    headers = {KEY_HEADER: key} if key is not None else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, **options) as got:  # type: ignore[arg-type] # as aiohttp has them
        return got.status, await got.read(), got.headers.get("Age", "")


def read(body: bytes) -> PreviewState:
    return from_lines(body.splitlines())


async def running_stage() -> Stage:
    """One job of another tenant runs, one waits."""
    stage = Stage()
    secret = stage.add("secret-project")
    found = (await stage.ask(secret)).outcome
    assert isinstance(found, Plan)
    stage.start(secret, found)
    stage.add("next-secret")
    return stage


async def test_the_document_holds_the_snapshot_the_policy_and_what_runs(tmp_path: Path) -> None:
    stage = await running_stage()
    stage.reader.calibrations = {"GCN": (Calibration("A100", 1.5, 0.1, 7),)}
    async with listening(stage, tmp_path) as url:
        status, body, age = await answer(url)
    assert (status, age) == (200, "0")
    state = read(body)
    policy = stage.reader.policy_named("default", {})
    snapshot = stage.cache.snapshot(policy, stage.now)
    assert (state.snapshot, state.policy) == (snapshot, policy)
    assert state.free_gpus == stage.cache.assumed_plans.free_gpus(snapshot) != {}
    assert [share.gpus for share in state.queue.running] == [share.gpus for share in stage.planning.running.shares()]
    assert state.queue.pending == 1
    assert state.calibrations["GCN"][0].factor == 1.5


async def test_no_job_is_named_in_it(tmp_path: Path) -> None:
    stage = await running_stage()
    async with listening(stage, tmp_path) as url:
        _, body, _ = await answer(url)
    for word in (b"secret", b"team", b"cora", b"Cora"):
        assert word not in body


@pytest.mark.parametrize("key", [None, "", "k" * 63, "k" * 65, "x" * 64, "ключ"])
async def test_without_the_key_nothing_is_told(tmp_path: Path, key: str | None) -> None:
    async with listening(Stage(), tmp_path) as url:
        status, body, _ = await answer(url, key)
    assert status == 403
    assert b"node" not in body


@pytest.mark.parametrize("key", ["", "short"])
async def test_an_operator_without_a_key_worth_the_name_serves_nothing(tmp_path: Path, key: str) -> None:
    async with listening(Stage(), tmp_path, key) as url:
        assert (await answer(url, key))[0] == 503
        assert (await answer(url, None))[0] == 503


async def test_a_cluster_that_was_not_listed_yet_is_not_told(tmp_path: Path) -> None:
    async with listening(Stage(), tmp_path, ready="the first listing is not done") as url:
        assert (await answer(url))[:2] == (503, b"the first listing is not done\n")


async def test_a_policy_is_picked_by_name_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    stage = Stage()
    stage.cache.see_policy({"metadata": {"name": "fast", "uid": "u", "generation": 1}, "spec": {"seed": 42}})
    stage.cache.see_policy({"metadata": {"name": "broken", "uid": "v", "generation": 1}, "spec": {"seed": "lots"}})
    async with listening(stage, tmp_path) as url:
        _, body, _ = await answer(f"{url}?policy=fast")
        assert read(body).policy.seed == 42
        assert (await answer(f"{url}?policy=slow"))[:2] == (404, b'no PlannerPolicy "slow" exists; create it or leave policyRef out\n')
        status, body, _ = await answer(f"{url}?policy=broken")
        assert (status, b"seed" in body) == (404, True)


async def test_however_often_it_is_asked_a_document_is_made_once_in_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    made: list[int] = []
    original = preview_server.Previews.state

    def counted(self: preview_server.Previews, policy: object) -> PreviewState:
        made.append(1)
        return original(self, policy)  # type: ignore[arg-type] # as it came

    monkeypatch.setattr(preview_server.Previews, "state", counted)
    monkeypatch.setattr(preview_server, "KEPT_SECONDS", 3600.0)
    async with listening(stage, tmp_path) as url:
        bodies = {(await answer(url))[1] for _ in range(20)}
        assert len(made) == len(bodies) == 1
        for number in range(2 * preview_server.KEPT_POLICIES):
            stage.cache.see_policy({"metadata": {"name": f"p{number}", "uid": f"u{number}", "generation": 1}, "spec": {"seed": number}})
            assert (await answer(f"{url}?policy=p{number}"))[0] == 200
        stage.cache.see_policy({"metadata": {"name": "p7", "uid": "u7", "generation": 2}, "spec": {"seed": 77}})
        _, body, _ = await answer(f"{url}?policy=p7")
    assert read(body).policy.seed == 77, "a policy that changed is not what was kept"


async def test_a_change_that_plans_depend_on_is_in_the_next_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_server, "KEPT_SECONDS", 3600.0)
    monkeypatch.setattr(preview_server, "LEAST_REST_SECONDS", 0.0)
    monkeypatch.setattr(preview_server, "REST_RATIO", 0.0)
    stage = Stage()
    key = stage.add("new")
    async with listening(stage, tmp_path) as url:
        before = read((await answer(url))[1])
        found = (await stage.ask(key)).outcome
        assert isinstance(found, Plan)
        held = read((await answer(url))[1])
        stage.cache.replace("Node", [])
        gone = read((await answer(url))[1])
    assert (before.free_gpus, before.queue.pending) == ({}, 1)
    assert held.free_gpus != {}
    assert gone.snapshot.nodes == ()


async def test_a_change_within_the_rest_is_not_a_new_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_server, "LEAST_REST_SECONDS", 3600.0)
    stage = Stage()
    async with listening(stage, tmp_path) as url:
        first = (await answer(url))[1]
        stage.cache.replace("Node", [])
        assert (await answer(url))[1] == first


async def test_what_is_too_large_is_refused_with_the_other_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_server, "MAX_DOCUMENT_BYTES", 100)
    async with listening(Stage(), tmp_path) as url:
        status, body, _ = await answer(url)
    assert status == 507
    assert b"--from job or api" in body


async def test_only_a_get_of_the_one_path_is_answered(tmp_path: Path) -> None:
    async with listening(Stage(), tmp_path) as url, aiohttp.ClientSession() as session:
        for method, target in (("POST", url), ("DELETE", url), ("GET", url.removesuffix(PATH) + "/"), ("GET", f"{url}/../metrics")):
            async with session.request(method, target, headers={KEY_HEADER: KEY}, data=b"x" * 10_000 if method == "POST" else None) as got:
                assert got.status in (404, 405)


async def test_the_body_travels_compressed(tmp_path: Path) -> None:
    async with listening(Stage(), tmp_path) as url:
        raw = aiohttp.ClientSession(auto_decompress=False)
        async with raw, raw.get(url, headers={KEY_HEADER: KEY}) as got:
            assert got.headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(await got.read()).startswith(f'{{"version":{VERSION}'.encode())


async def test_a_key_that_is_no_text_is_refused_and_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(Stage(), tmp_path) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.write(f"GET {PATH} HTTP/1.1\r\nHost: a\r\n{KEY_HEADER}: ".encode() + b"\xff\xfe\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 403 ")
        await reader.read()  # to the end of the connection
        writer.close()
    assert caplog.records == []


async def test_strangers_that_say_nothing_are_few_and_cut_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STRANGER_SECONDS", 0.2)
    async with listening(Stage(), tmp_path) as url:
        streams = [await asyncio.open_connection("127.0.0.1", urlsplit(url).port) for _ in range(2 * listener.MAX_STRANGERS)]
        async with asyncio.timeout(20):
            ended = await asyncio.gather(*(reader.read() for reader, _ in streams), return_exceptions=True)
        assert all(each == b"" or isinstance(each, ConnectionError) for each in ended)
        for _, writer in streams:
            writer.close()
        assert (await answer(url))[0] == 200, "a client with the key is served again"


async def test_one_address_cannot_take_all_connections_of_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STRANGER_SECONDS", 600.0)
    async with listening(Stage(), tmp_path) as url:
        port = urlsplit(url).port
        streams = [
            await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(listener.MAX_STRANGERS_OF_HOST)
        ]
        further, mine = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(10):
                assert await further.read() == b""
        assert (await answer(url))[0] == 200
        for writer in (mine, *(writer for _, writer in streams)):
            writer.close()
