from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from hyperscale.agent.agent_settings import AgentSettings
from hyperscale.agent.gpus import nvml_dcgm
from hyperscale.agent.gpus.nvml_dcgm import MAX_BYTES, Watch, serves
from hyperscale.agent.gpus.nvml_poll import Poller
from tests.unit.agent import dcgmtexts

Talk = Callable[[socket.socket], None]


@contextmanager
def answering(talk: Talk) -> Iterator[str]:
    """A server on loopback that talks so to every client, one after another."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                try:
                    client, _ = listening.accept()
                except TimeoutError:
                    continue
                with client:
                    client.settimeout(5)
                    try:
                        client.recv(4096)
                        talk(client)
                    except OSError:
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/metrics"
        finally:
            over.set()
            thread.join(10)


def text(body: str, status: str = "200 OK") -> Talk:
    answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
    return lambda client: client.sendall(answer)


def endless(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        client.sendall(b"# nothing\n" * 1000)


@pytest.mark.parametrize(
    "body", [dcgmtexts.before_hostnames(), dcgmtexts.with_capital_hostname("gpu-a"), dcgmtexts.with_small_hostname("gpu-a")]
)
def test_an_exporter_of_any_version_is_recognised(body: str) -> None:
    with answering(text(body)) as url:
        assert serves(url, 10)


@pytest.mark.parametrize(
    "talk",
    [
        text(""),
        text("# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n"),
        text("node_load1 0.3\n"),
        text(dcgmtexts.with_small_hostname("gpu-a"), "503 Service Unavailable"),
        text("", "302 Found\r\nLocation: http://127.0.0.1:1/"),
        text("x" * (MAX_BYTES + 10)),
        lambda client: client.sendall(b"\x00\x01 no http\r\n\r\n"),
        lambda _: None,
        endless,
    ],
    ids=["empty", "only help", "another exporter", "503", "redirect", "too long", "no http", "closes", "endless"],
)
def test_what_is_no_exporter_with_gpus_is_not(talk: Talk) -> None:
    with answering(talk) as url:
        assert not serves(url, 10)


def test_an_exporter_that_says_nothing_is_none() -> None:
    over = threading.Event()

    def wait(_: socket.socket) -> None:
        over.wait(20)

    with answering(wait) as url:
        assert not serves(url, 0.1)
        over.set()
    assert not serves(url, 0.1)


def watch(url: str, gpu: str = "Auto") -> tuple[Watch, Poller]:
    settings = msgspec.convert({"node": "gpu-a", "gpu": gpu, "dcgm_url": url}, AgentSettings)
    poller = Poller(None, settings, lambda: 0.0)
    return Watch(poller, settings), poller


async def test_figures_go_to_the_exporter_and_come_back_after_three_misses() -> None:
    with answering(text(dcgmtexts.with_small_hostname("gpu-a"))) as url:
        looking, poller = watch(url)
        await looking.look()
        assert poller.left_to_dcgm
    seen = []
    for _ in range(3):
        await looking.look()
        seen.append(poller.left_to_dcgm)
    assert seen == [True, True, False]


@pytest.mark.parametrize("gpu", ["Always", "Never"])
async def test_what_is_switched_by_hand_is_not_looked_for(gpu: str) -> None:
    with answering(text(dcgmtexts.with_small_hostname("gpu-a"))) as url:
        looking, poller = watch(url, gpu)
        await looking.look()
        assert not poller.left_to_dcgm
        await looking.run()


async def test_a_name_server_that_does_not_answer_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(nvml_dcgm, "serves", lambda url: over.wait(20))
    monkeypatch.setattr(nvml_dcgm, "DEADLINE_SECONDS", 0.05)
    looking, poller = watch("http://nowhere:9400/metrics")
    await asyncio.wait_for(looking.look(), 10)
    assert not poller.left_to_dcgm
    over.set()
