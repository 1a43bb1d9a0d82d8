import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.model.clocks import Unix
from pulsed.model.raw_tick import KernelEvent, LinkFault
from pulsed.reader.kernel_log.log_text import parse_message

GPU, SWITCH = "00000000:3B:00.0", "00000000:C1:00.0"


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (
            "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000018, intr 00000000. MMU Fault",
            KernelEvent(
                "xid",
                31,
                Unix(1.0),
                GPU,
                4711,
                "python3",
                None,
                "31, pid=4711, name=python3, Ch 00000018, intr 00000000. MMU Fault",
            ),
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            KernelEvent(
                "xid",
                79,
                Unix(1.0),
                GPU,
                None,
                "",
                None,
                "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            ),
        ),
        ("NVRM: Xid (0000:3b:00): 13, 0003", KernelEvent("xid", 13, Unix(1.0), GPU, text="13, 0003")),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, x", KernelEvent("xid", 94, Unix(1.0), GPU, text="94, x")),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 43", KernelEvent("xid", 43, Unix(1.0), GPU, text="43")),
        (
            "NVRM: The NVIDIA GPU 0000:3b:00.0\nNVRM: (PCI ID: 10de:1b38) installed in this system has\n"
            "NVRM: fallen off the bus and is not responding to commands.\n",
            KernelEvent(
                "bus_loss",
                79,
                Unix(1.0),
                GPU,
                text="NVRM: The NVIDIA GPU 0000:3b:00.0 NVRM: (PCI ID: 10de:1b38) installed in this system has "
                "NVRM: fallen off the bus",
            ),
        ),
        (
            "NVRM: Xid (PCI:0001:3b:00): 45, pid=0, Ch 8",
            KernelEvent("xid", 45, Unix(1.0), "00000001:3B:00.0", text="45, pid=0, Ch 8"),
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)",
            KernelEvent(
                "sxid",
                28006,
                Unix(1.0),
                SWITCH,
                is_fatal=False,
                text="28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)",
            ),
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            KernelEvent("sxid", 20034, Unix(1.0), SWITCH, is_fatal=True, text="20034, Fatal, Link 30 LTSSM Fault Up"),
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Severity 1 Engine instance 30",
            KernelEvent("sxid", 20034, Unix(1.0), SWITCH, text="20034, Severity 1 Engine instance 30"),
        ),
        (
            "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
            KernelEvent("bus_loss", 79, Unix(1.0), GPU, text="NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus"),
        ),
        *(
            (message, KernelEvent("not_started", 0, Unix(1.0), address, text=message))
            for address, message in (
                (GPU, "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2393)"),
                ("", "NVRM: The NVIDIA probe routine failed for 1 device(s)."),
                ("", "NVRM: GPU0 kgspInitRm_IMPL: GspRmAlloc failed: hClient=0xc1d00001; status=0x00000062"),
                ("", "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x8A)"),
            )
        ),
    ],
)
def test_faults(message: str, event: KernelEvent) -> None:
    assert parse_message(message, Unix(1.0)) == event


@pytest.mark.parametrize(
    ("text", "fault", "cause"),
    [
        (
            "149, NETIR_LINK_DOWN Fatal XC0 i0 Link 14 (0x025001c6 0x00000000 0x00000000)",
            LinkFault("NETIR_LINK_DOWN", True, link=14, subcode=37),
            None,
        ),
        (
            "149, pid=7, name=train.py, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x026001c6 0x00000000)",
            LinkFault("NETIR_LINK_EVT", True, link=9, subcode=38),
            None,
        ),
        (
            "145, RLW_REMAP Nonfatal XC1 i0 Link -1 (0x00000004 0x00000040)",
            LinkFault("RLW_REMAP", False, subcode=0),
            None,
        ),
        ("145, RLW_CTRL Non-fatal XC0 i1 Link 03", LinkFault("RLW_CTRL", False, is_injected=True, link=3), None),
        (
            "149, NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x00000186 0x0]",
            LinkFault("NETIR_LINK_EVT", True, is_injected=True, link=1, subcode=0),
            None,
        ),
        ("45, pid=4711, name=train.py, Ch 00000001 caused by previous Xid 149", None, 149),
        ("149, something else, Link 14", None, None),
    ],
)
def test_faults_of_links(text: str, fault: LinkFault | None, cause: int | None) -> None:
    event = parse_message(f"NVRM: Xid (PCI:0000:3b:00): {text}", Unix(1.0))
    assert event is not None
    assert (event.fault, event.cause) == (fault, cause)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", 2),
        ("154, pid=7, name=a, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", 1),
        ("154, GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)", 1),
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x3 (Drain P2P)", 3),
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x4 (Drain and Reset)", 4),
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", 0),
        ("154, GPU recovery action changed from 0x0 (None) to 0x1f (New)", 31),
        ("154, something else", None),
        ("154, GPU recovery action changed from 0x0 (None) to 0x123456789 (Much)", None),
    ],
)
def test_recovery_actions(text: str, action: int | None) -> None:
    event = parse_message(f"NVRM: Xid (PCI:0000:3b:00): {text}", Unix(1.0))
    assert event is not None
    assert (event.code, event.action) == (154, action)


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: GPU at PCI:0000:3b:00: GPU-b6c3b2be-c55b-d076-fa0e-d464e4c7e08b",
        "NVRM: GPU Board Serial Number: 1653723052734",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03",
        "usb 1-1: device has fallen off the bus",
        "Xid (PCI:0000:3b:00): 79 printed by another driver",
        "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/NVRM: Xid (PCI:0000:3b:00): 64,task=python,pid=7,uid=1000",
        "Memory cgroup stats for /a NVRM: Xid (PCI:0000:3b:00): 64:",
        "Memory cgroup stats for /NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        "traps: nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal",
        " NVRM: Xid (PCI:0000:3b:00): 79",
        f"NVRM: Xid (PCI:0000:3b:00): {'7' * 7}",
        f"NVRM: Xid (PCI:0000:3b:00): {'7' * 5000}",
        f"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {'7' * 5000}, Fatal",
        "",
    ],
)
def test_other_messages(message: str) -> None:
    assert parse_message(message, Unix(1.0)) is None


def test_process_ids_have_at_most_ten_digits() -> None:
    event = parse_message(f"NVRM: Xid (PCI:0000:3b:00): 31, pid={'7' * 11}, name=python", Unix(1.0))
    assert event is not None
    assert (event.pid, event.process) == (None, "python")


@given(
    st.text(), st.sampled_from(["NVRM: Xid (PCI:0000:3b:00): 31", "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 1", ""])
)
def test_texts_have_no_control_characters(rest: str, start: str) -> None:
    event = parse_message(start + rest, Unix(1.0))
    if event is not None:
        assert (event.text + event.process).isprintable()
        assert len(event.text) <= 500


@pytest.mark.parametrize(
    ("rest", "place"),
    [
        ("13, pid=9, name=t, Graphics SM Warp Exception on (GPC 3, TPC 5, SM 1): Out Of Range", "GPC 3, TPC 5, SM 1"),
        ("13, pid=9, name=t, Graphics SM Global Exception on (GPC 0, TPC 2, SM 0): Multiple", "GPC 0, TPC 2, SM 0"),
        ("13, Graphics Exception on GPC 2: BAD", "GPC 2"),
        ("31, pid=9, name=t, MMU Fault: ENGINE GRAPHICS GPC3 GPCCLIENT_T1_0 faulted @ 0x7f", "GPC 3, GPCCLIENT_T1_0"),
        ("31, pid=9, name=t, MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f", ""),
        ("31, MMU Fault: ENGINE CE2 HUBCLIENT_CE0 faulted @ 0x7f", ""),
        ("79, GPU has fallen off the bus", ""),
    ],
)
def test_the_place_on_the_chip(rest: str, place: str) -> None:
    event = parse_message(f"NVRM: Xid (PCI:0000:3b:00): {rest}", Unix(1.0))
    assert event is not None
    assert event.place == place
