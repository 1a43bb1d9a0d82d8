"""A made `/sys`, `/proc` and `/dev` of a host, for the key `host.root`."""

from __future__ import annotations

from pathlib import Path


class HostTree:
    """The root folder of a host that has nothing yet but its process list.

    Attributes:
        kernel_log: a file for `health.kernel_log`.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.kernel_log = root, root / "kern.log"
        self._gpus = 0
        self.kernel_log.parent.mkdir(parents=True, exist_ok=True)
        self.kernel_log.touch()
        self.write("proc/2/comm", "kthreadd\n")
        (root / "sys/bus/pci/devices").mkdir(parents=True)

    def write(self, path: str, text: str) -> Path:
        """Write a file, with its folders; a reader meets the old text or the new one, as in the kernel's files."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.root / "draft"
        draft.write_text(text)
        draft.replace(file)
        return file

    def add_pci(self, address: str, driver: str = "", *, vendor: str = "0x10de", kind: str = "0x030200") -> Path:
        """Add a device to the PCI bus, or give it another driver; return its folder."""
        device = self.root / "sys/bus/pci/devices" / address
        self.write(f"{device}/vendor", f"{vendor}\n")
        self.write(f"{device}/class", f"{kind}\n")
        (device / "driver").unlink(missing_ok=True)
        if driver:
            (device / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
        return device

    def add_gpu(self, address: str, *, is_given: bool = True) -> None:
        """Add a GPU that the driver lists, with its device file unless a container is not given it."""
        self.add_pci(address, "nvidia")
        self.write(
            f"proc/driver/nvidia/gpus/{address}/information",
            f"Model: \t\t NVIDIA H100\nDevice Minor: \t {self._gpus}\n",
        )
        if is_given:
            self.write(f"dev/nvidia{self._gpus}", "")
        self._gpus += 1

    def add_process(self, pid: int, name: str, state: str = "D", *, has_gpu: bool = False) -> None:
        """Add a process, or change its state."""
        self.write(f"proc/{pid}/stat", f"{pid} ({name}) {state} " + " ".join(["0"] * 18 + [str(1000 + pid), "0"]))
        folder = self.root / f"proc/{pid}/fd"
        folder.mkdir(exist_ok=True)
        if has_gpu and not (folder / "7").is_symlink():
            (folder / "7").symlink_to("/dev/nvidia0")

    def set_port(
        self,
        device: str,
        state: str = "4: ACTIVE",
        physical: str = "5: LinkUp",
        rate: str = "400 Gb/sec (4X NDR)",
        **counters: int,
    ) -> None:
        """Add the port of an InfiniBand adapter with one port, or change it."""
        folder = f"sys/class/infiniband/{device}"
        self.write(f"{folder}/board_id", "MT_0000000838\n")
        texts = {"link_layer": "InfiniBand", "state": state, "phys_state": physical, "rate": rate}
        for name, text in texts.items() | {(f"counters/{name}", str(value)) for name, value in counters.items()}:
            self.write(f"{folder}/ports/1/{name}", f"{text}\n")

    def log(self, message: str, at: float) -> None:
        """Append a message of the kernel, at a Unix time."""
        with self.kernel_log.open("a") as file:
            file.write(f"__REALTIME_TIMESTAMP={int(at * 1e6)}\n_TRANSPORT=kernel\nMESSAGE={message}\n\n")
