"""Texts in the format of dcgm-exporter's versions, written for these tests after its README, its templates and its issues.

BLANK is what DCGM gives for a figure that the GPU does not have (README up to 3.x).
"""

from __future__ import annotations

BLANK = 9223372036854775794
UUIDS = ("GPU-5fd4a5a2-0b11-1c3e-7a5c-64fd4d6d7001", "GPU-5fd4a5a2-0b11-1c3e-7a5c-64fd4d6d7002")
HELP = {
    "DCGM_FI_DEV_SM_CLOCK": "SM clock frequency (in MHz).",
    "DCGM_FI_DEV_MEMORY_TEMP": "Memory temperature (in C).",
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (in C).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_XID_ERRORS": "Value of the last XID error encountered.",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_DEV_FB_RESERVED": "Framebuffer memory reserved (in MiB).",
}
VALUES: dict[str, tuple[object, object]] = {
    "DCGM_FI_DEV_SM_CLOCK": (1980, 345),
    "DCGM_FI_DEV_MEMORY_TEMP": (BLANK, BLANK),
    "DCGM_FI_DEV_GPU_TEMP": (61, 33),
    "DCGM_FI_DEV_POWER_USAGE": ("403.125000", "71.482000"),
    "DCGM_FI_DEV_GPU_UTIL": (92, 0),
    "DCGM_FI_DEV_XID_ERRORS": (0, 43),
    "DCGM_FI_DEV_FB_FREE": (30000, 81000),
    "DCGM_FI_DEV_FB_USED": (51049, 49),
    "DCGM_FI_DEV_FB_RESERVED": (510, 510),
}


def _text(lines: dict[str, list[str]]) -> str:
    return "".join(
        f"# HELP {name} {HELP[name]}\n# TYPE {name} gauge\n" + "".join(f"{line}\n" for line in found) for name, found in lines.items()
    )


def before_hostnames(pods: tuple[str, str] = ("", "")) -> str:
    """2.x up to 2.2: no node at all, a space behind the first comma."""
    lines = {}
    for name, values in VALUES.items():
        if name != "DCGM_FI_DEV_FB_RESERVED":
            lines[name] = [f"{name}{_bare(gpu, pods[gpu])} {values[gpu]}" for gpu in (0, 1)]
    return _text(lines)


def _bare(gpu: int, pod: str) -> str:
    return f'{{gpu="{gpu}", UUID="{UUIDS[gpu]}",container="",namespace="{"ml" if pod else ""}",pod="{pod}"}}'


def with_capital_hostname(hostname: str, *, reserved: bool = True, bus_ids: bool = True) -> str:
    """3.x and 4.x before dcgm-exporter#655; without bus ids before 3.3.7."""
    return _with("Hostname", hostname, reserved=reserved, bus_ids=bus_ids)


def with_small_hostname(hostname: str) -> str:
    """From dcgm-exporter#655 on."""
    return _with("hostname", hostname, reserved=True, bus_ids=True)


def _with(label: str, hostname: str, *, reserved: bool, bus_ids: bool) -> str:
    lines = {}
    for name in VALUES:
        if reserved or name != "DCGM_FI_DEV_FB_RESERVED":
            lines[name] = [_line(name, gpu, label, hostname, bus_ids) for gpu in (0, 1)]
    return _text(lines)


def _line(name: str, gpu: int, label: str, hostname: str, bus_ids: bool) -> str:
    pod = ',container="train",namespace="ml",pod="gnn-worker-0"' if gpu == 0 else ""
    bus = f'pci_bus_id="00000000:{(0x8D, 0x91)[gpu]:02X}:00.0",' if bus_ids else ""
    return (
        f'{name}{{gpu="{gpu}",UUID="{UUIDS[gpu]}",{bus}device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",'
        f'{label}="{hostname}",DCGM_FI_DRIVER_VERSION="550.144.03"{pod}}} {VALUES[name][gpu]}'
    )


def with_mig(hostname: str) -> str:
    """4.x, the first GPU split in two instances, the second whole."""
    lines = {}
    for name in VALUES:
        whole = _line(name, 1, "Hostname", hostname, True)
        head = f'{name}{{gpu="0",UUID="{UUIDS[0]}",pci_bus_id="00000000:8D:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",'
        instances = [
            f'{head}GPU_I_PROFILE="{profile}",GPU_I_ID="{number}",Hostname="{hostname}"}} {VALUES[name][0]}'
            for number, profile in ((1, "3g.40gb"), (7, "1g.10gb"))
        ]
        lines[name] = [*instances, whole]
    return _text(lines)


def with_links(hostname: str) -> str:
    """What 4.x adds for links and switches: other spellings of the GPU and its model, and a small hostname long before the others."""
    return (
        "# HELP DCGM_FI_DEV_NVLINK_BANDWIDTH_L0 The number of bytes of active NVLink rx or tx data.\n"
        "# TYPE DCGM_FI_DEV_NVLINK_BANDWIDTH_L0 counter\n"
        f'DCGM_FI_DEV_NVLINK_BANDWIDTH_L0{{nvlink="0",gpu="0",gpu_uuid="{UUIDS[0]}",pci_bus_id="00000000:8D:00.0",device="nvidia0",'
        f'model_name="NVIDIA H100 80GB HBM3",hostname="{hostname}"}} 57\n'
        "# HELP DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT Current temperature value of NVSwitch (in C).\n"
        "# TYPE DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT gauge\n"
        f'DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{{nvswitch="0",Hostname="{hostname}"}} 43\n'
    )
