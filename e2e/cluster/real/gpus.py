"""The process that plays NVIDIA's device plugin for every real node: kubelet's own gRPC interface v1beta1, devices without hardware.

A file `unhealthy` in a node's folder lists devices that are reported Unhealthy: a test breaks a GPU by writing it.
The Python side of the interface is compiled from the .proto file of the kubelet's own release when the process starts.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, Final

import grpc  # type: ignore[import-untyped] # grpcio ships no annotations

# ruff: noqa: ANN401 (modules and messages that exist only when the process runs)

RESOURCE: Final = "nvidia.com/gpu"
VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
UNHEALTHY_FILE: Final = "unhealthy"
_SOCKET: Final = "fake-gpu.sock"
_LOOK_SECONDS: Final = 0.3
_REGISTER_SECONDS: Final = 5.0


def compile_interface(proto: Path, folder: Path) -> tuple[Any, Any]:
    """(messages, services) modules of the interface, generated in `folder`.

    By a process of its own: the compiler's extension does not load beside ortools, which has another protobuf linked in.
    """
    text = proto.read_text()
    # gogo's options change Go code only, and its .proto file is not at hand.
    kept = [line for line in text.splitlines() if "gogoproto" not in line and "gogo.proto" not in line]
    (folder / "deviceplugin.proto").write_text("\n".join(kept) + "\n")
    arguments = [f"-I{folder}", f"--python_out={folder}", f"--grpc_python_out={folder}", str(folder / "deviceplugin.proto")]
    finished = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    if finished.returncode != 0:
        raise RuntimeError(f"{proto} cannot be compiled: {finished.stderr}")
    sys.path.insert(0, str(folder))
    return importlib.import_module("deviceplugin_pb2"), importlib.import_module("deviceplugin_pb2_grpc")


class Plugin:
    """The devices of one node, as kubelet's client asks for them."""

    def __init__(self, messages: Any, home: Path, node: str, count: int) -> None:
        self._messages = messages
        self._home = home
        self._devices = [f"GPU-{node}-{number}" for number in range(count)]

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802 - the interface's name
        """Nothing special."""
        return self._messages.DevicePluginOptions()

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        """All devices, again whenever the health of one changes."""
        told: set[str] | None = None
        while context.is_active():
            bad = self._unhealthy()
            if bad != told:
                told = bad
                devices = [self._messages.Device(ID=one, health="Unhealthy" if one in bad else "Healthy") for one in self._devices]
                yield self._messages.ListAndWatchResponse(devices=devices)
            time.sleep(_LOOK_SECONDS)

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Name the devices to the container, as NVIDIA's plugin does."""
        answer = self._messages.AllocateResponse()
        for container in request.container_requests:
            devices = ",".join(sorted(container.devices_ids))
            answer.container_responses.append(self._messages.ContainerAllocateResponse(envs={VISIBLE: devices}))
        return answer

    def _unhealthy(self) -> set[str]:
        try:
            return set((self._home / UNHEALTHY_FILE).read_text().split())
        except OSError:
            return set()


def serve(messages: Any, services: Any, home: Path, node: str, count: int) -> None:
    """Serve one node for ever; registers again when kubelet was restarted, which empties the folder."""
    folder = home / "kubelet" / "device-plugins"
    own, kubelet = folder / _SOCKET, folder / "kubelet.sock"
    registered, server = 0, None
    while True:
        try:
            found = kubelet.stat().st_ino
            if found != registered or not own.exists():
                if server is not None:
                    server.stop(0)
                server = grpc.server(futures.ThreadPoolExecutor(4))
                servicer = type("Servicer", (Plugin, services.DevicePluginServicer), {})(messages, home, node, count)
                services.add_DevicePluginServicer_to_server(servicer, server)
                server.add_insecure_port(f"unix://{own}")
                server.start()
                _register(messages, services, kubelet)
                registered = found
                print(f"{node}: registered {count} devices", flush=True)
        except (OSError, grpc.RpcError) as error:
            if not isinstance(error, FileNotFoundError):
                print(f"{node}: {error}", file=sys.stderr, flush=True)
        time.sleep(_LOOK_SECONDS)


def _register(messages: Any, services: Any, kubelet: Path) -> None:
    with grpc.insecure_channel(f"unix://{kubelet}") as channel:
        request = messages.RegisterRequest(version="v1beta1", endpoint=_SOCKET, resource_name=RESOURCE)
        services.RegistrationStub(channel).Register(request, timeout=_REGISTER_SECONDS)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster.real.gpus", description="Device plugins without devices.")
    parser.add_argument("--proto", type=Path, required=True)
    parser.add_argument("gpus", nargs="+", metavar="NODE=COUNT=FOLDER", help="FOLDER/kubelet is kubelet's, FOLDER/unhealthy ours")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        messages, services = compile_interface(arguments.proto, Path(folder))
        for given in arguments.gpus:
            node, count, home = given.split("=", 2)
            threading.Thread(target=serve, args=(messages, services, Path(home), node, int(count)), daemon=True).start()
        threading.Event().wait()


if __name__ == "__main__":
    main()
