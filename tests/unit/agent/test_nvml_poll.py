from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest

from hyperscale.agent.__main__ import NodeAgent
from hyperscale.agent.agent_settings import AgentSettings
from hyperscale.agent.gpus.gpu_reading import GpuReading, Reading
from hyperscale.agent.gpus.nvml import Nvml
from hyperscale.agent.gpus.nvml_calls import Call
from hyperscale.agent.gpus.nvml_poll import Poller
from hyperscale.agent.state import AgentState, DriverCondition
from tests.unit.agent.expositiontext import samples
from tests.unit.agent.fakenvml import FakeNvml

SETTINGS = AgentSettings(node="gpu-a", interval_seconds=10, nvml_deadline_seconds=5, retry_seconds=30)
IMPATIENT = msgspec.structs.replace(SETTINGS, nvml_deadline_seconds=0.05)
HANG = "nvmlDeviceGetUtilizationRates"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Broken:
    """A source that fails with something that is no NVML error."""

    call = Call()

    def read(self, now: float, *, figures: bool = True) -> Reading:
        raise OSError("the library is no library")


async def test_a_call_that_never_returns_stalls_nobody_and_takes_the_series_along(nvml: FakeNvml) -> None:
    nvml.load({f"hang.{HANG}": 1})
    poller = Poller(Nvml(), IMPATIENT, Clock())
    stalled = await poller.poll()
    assert stalled.state.condition is DriverCondition.STALLED
    assert f"{HANG} of GPU 0 has not returned" in stalled.state.message
    assert stalled.gpus == ()
    nvml.load()
    while (await poller.poll()).state.condition is DriverCondition.STALLED:
        pass
    assert poller.state.condition is DriverCondition.READY
    assert len(poller.latest.gpus) == 2


async def test_a_stalled_reading_is_waited_for_and_never_doubled(nvml: FakeNvml) -> None:
    nvml.load({f"hang.{HANG}": 1})
    poller = Poller(Nvml(), IMPATIENT, Clock())
    tasks = len(asyncio.all_tasks())
    for _ in range(3):
        await poller.poll()
    assert len(asyncio.all_tasks()) == tasks + 1
    nvml.load()
    while (await poller.poll()).state.condition is DriverCondition.STALLED:
        pass


async def test_pages_answer_while_the_driver_hangs(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.load({f"hang.{HANG}": 1})
    agent = NodeAgent(IMPATIENT)
    await agent.poller.poll()
    assert agent.health().status == 200
    assert agent.readiness().status == 200
    served = samples(agent.text())
    assert served["hyperscale_agent_state"] == [({"node": "gpu-a", "state": "Stalled"}, 1)]
    assert not [name for name in served if name.startswith("DCGM")]
    nvml.load()
    while (await agent.poller.poll()).state.condition is DriverCondition.STALLED:
        pass
    assert "DCGM_FI_DEV_GPU_UTIL" in samples(agent.text())


async def test_figures_that_grow_old_are_not_served(nvml: FakeNvml) -> None:
    clock = Clock()
    poller = Poller(Nvml(), SETTINGS, clock)
    await poller.poll()
    clock.now += 34
    assert poller.latest.gpus
    clock.now += 2
    assert poller.latest.gpus == ()
    assert (poller.state.condition, poller.state.message) == (DriverCondition.STALLED, "the last reading is 36 s old")


async def test_what_a_foreign_library_raises_is_a_state(caplog: pytest.LogCaptureFixture) -> None:
    poller = Poller(Broken(), SETTINGS, Clock())
    reading = await poller.poll()
    assert reading.state == AgentState(DriverCondition.UNREADABLE, "OSError: the library is no library")
    assert "reading the GPUs failed" in caplog.text


async def test_without_a_source_the_state_is_off_and_nothing_runs() -> None:
    poller = Poller(None, SETTINGS, Clock())
    await poller.run()
    assert (await poller.poll()).state.condition is DriverCondition.OFF


async def test_figures_are_left_to_dcgm_but_a_missing_driver_is_still_told(nvml: FakeNvml) -> None:
    agent = NodeAgent(SETTINGS)
    agent.poller.left_to_dcgm = True
    await agent.poller.poll()
    served = samples(agent.text())
    assert served["hyperscale_agent_state"][0][0]["state"] == "LeftToDCGM"
    assert "hyperscale_gpu_path" in served
    assert not [name for name in served if name.startswith("DCGM")]
    nvml.load({"error.nvmlDeviceGetCount_v2": 9})
    await agent.poller.poll()
    assert samples(agent.text())["hyperscale_agent_state"][0][0]["state"] == "NoDriver"


async def test_where_dcgm_serves_nvml_is_held_only_while_it_is_read(nvml: FakeNvml) -> None:
    poller = Poller(Nvml(), SETTINGS, Clock())
    await poller.poll()
    assert nvml.is_open
    poller.left_to_dcgm = True
    await poller.poll()
    assert not nvml.is_open
    assert poller.latest.paths


async def test_the_next_reading_does_not_wait_when_an_exporter_comes_or_goes(nvml: FakeNvml) -> None:
    poller = Poller(Nvml(), msgspec.structs.replace(SETTINGS, interval_seconds=3600), Clock())
    running = asyncio.create_task(poller.run())
    async with asyncio.timeout(30):
        while not poller.latest.gpus:  # noqa: ASYNC110 - the poller sends no notification
            await asyncio.sleep(0.01)
        poller.left_to_dcgm = True
        while poller.latest.gpus[0].figures:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        poller.left_to_dcgm = False
        while not poller.latest.gpus[0].figures:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    running.cancel()


async def test_an_agent_without_the_library_is_well_where_dcgm_serves(nvml: FakeNvml) -> None:
    nvml.load({"error.nvmlInitWithFlags": 12})
    agent = NodeAgent(SETTINGS)
    await agent.poller.poll()
    without = agent.poller.state
    agent.poller.left_to_dcgm = True
    assert [without.condition, agent.poller.state.condition] == [DriverCondition.NO_LIBRARY, DriverCondition.LEFT_TO_DCGM]
    assert "the ways between them are not known: nvmlInit: NVML Shared Library Not Found" in agent.poller.state.message


async def test_states_are_logged_when_they_change_and_not_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    states = [
        AgentState(DriverCondition.READY),
        AgentState(DriverCondition.READY),
        AgentState(DriverCondition.NO_DRIVER, "gone"),
        AgentState(DriverCondition.READY),
    ]

    class Changing:
        call = Call()

        def read(self, now: float, *, figures: bool = True) -> Reading:
            return Reading(taken_at=now, state=states.pop(0), gpus=(GpuReading(0, AgentState(DriverCondition.READY)),))

    poller = Poller(Changing(), SETTINGS, Clock())
    for _ in range(4):
        await poller.poll()
    assert [record.getMessage() for record in caplog.records] == ["Ready", "NoDriver: gone: load the NVIDIA driver on the node", "Ready"]


def test_an_agent_that_has_not_looked_yet_is_not_ready() -> None:
    assert NodeAgent(SETTINGS).readiness().status == 503
    assert NodeAgent(msgspec.structs.replace(SETTINGS, gpu="Never")).readiness().status == 200
