"""InfiniBand ports of made trees."""

from __future__ import annotations

from pathlib import Path

from pulsed.host.kernel_files import read_ports
from pulsed.model.host import InfinibandPort
from tests.support.host_tree import HostTree


def test_ports_have_state_rate_and_counters_as_far_as_they_are_there(tmp_path: Path) -> None:
    assert read_ports(tmp_path) is None
    tree = HostTree(tmp_path)
    (tmp_path / "sys/class").mkdir()
    assert read_ports(tmp_path) == ()
    tree.set_port("mlx5_1", symbol_error=3, port_rcv_data=1000)
    tree.set_port("mlx5_0", "1: DOWN", "2: Polling", "10 Gb/sec (4X SDR)")
    tree.write("sys/class/infiniband/mlx5_1/ports/1/counters/link_downed", "garbage\n")
    tree.write("sys/class/infiniband/irdma0/ports/1/state", "4: ACTIVE\n")
    tree.write("sys/class/infiniband/irdma0/ports/1/hw_counters/rnr_nak_retry_err", "7\n")
    only = (read_ports(tmp_path, {"receive_bytes"}) or ())[2]
    assert only.counters == {"receive_bytes": 4000}
    assert read_ports(tmp_path) == (
        InfinibandPort("irdma0", "1", "irdma0 ", "ACTIVE", "", None, {"rnr_nak_retry_errors": 7}),
        InfinibandPort("mlx5_0", "1", "MT_0000000838 InfiniBand", "DOWN", "Polling", 1.25e9, {}),
        InfinibandPort(
            "mlx5_1",
            "1",
            "MT_0000000838 InfiniBand",
            "ACTIVE",
            "LinkUp",
            5e10,
            {"receive_bytes": 4000, "symbol_errors": 3},
        ),
    )
