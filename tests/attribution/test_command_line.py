from __future__ import annotations

import time

import pytest

from pulsed.attribution.processes import MAX_BYTES, MAX_TEXT, arguments_of, masked_command


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["python", "train.py", "--epochs", "3"], "python train.py --epochs 3"),
        (["x", "--token=abc", "--API-KEY", "abc", "--lr", "1"], "x --token=*** --API-KEY *** --lr 1"),
        (["env", "WANDB_API_KEY=abc", "HF_TOKEN=abc", "x"], "env WANDB_API_KEY=*** HF_TOKEN=*** x"),
        (["curl", "-u", "ann:abc", "-H", "Authorization: Bearer abc d"], "curl -u *** -H Authorization: ***"),
        (["psql", "postgres://ann:abc@db/x"], "psql postgres://***@db/x"),
        (["psql", "postgres://ann:a@b@db/x"], "psql postgres://***@db/x"),
        (["x", '{"a": 1, "api_key" : "abc"}'], 'x {"a": 1, "api_key" : ***'),
        (["x", "lr=1:token =\tabc", "--pwd", "-1"], "x lr=1:token =\t*** --pwd -1"),
        (["x", "--token=", "token:"], "x --token= token:"),
        (["x", "hf_abcdefghijkl", "sk-abcdefghijkl"], "x *** ***"),
        (["sh", "-c", "export SECRET=abc; x"], "sh -c export SECRET=***"),
        (["x", "--password", "--verbose"], "x --password --verbose"),
        ([], ""),
    ],
)
def test_secrets_are_masked(arguments: list[str], expected: str) -> None:
    assert masked_command(arguments) == expected


def test_long_lines_are_cut() -> None:
    assert len(masked_command(["x" * 1000])) == MAX_TEXT


@pytest.mark.parametrize(
    "argument",
    [
        "token" * 200_000,
        "-" + "token" * 200_000 + "=",
        "a" * 1_000_000,
        "token=" * 200_000,
        "://" * 300_000,
        " =" * 500_000,
    ],
)
def test_the_time_grows_with_the_length(argument: str) -> None:
    """An argument of 2,000 characters took 13 s."""
    started = time.process_time()
    masked_command([argument, argument])
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (b"python\0train.py\0--name=a b\0", ["python", "train.py", "--name=a b"]),
        (b"nginx: worker process", ["nginx:", "worker", "process"]),
        (b"x\0\0\0", ["x"]),
        (b"x\0\0y\0", ["x", "", "y"]),
        (b"\xff\0", ["\N{REPLACEMENT CHARACTER}"]),
        (b"", []),
        (b"\0", []),
    ],
)
def test_arguments_of_a_process(content: bytes, arguments: list[str]) -> None:
    assert arguments_of(content) == arguments


@pytest.mark.parametrize("separator", [b"\0", b" "])
def test_half_a_secret_is_left_out(separator: bytes) -> None:
    begin = b"x" * (MAX_BYTES - 20)
    for last in (b"postgres://ann:secret@db", b"hf_abcdefghijklmnopqrstuvwxyz"):
        assert arguments_of(begin + separator + last) == [begin.decode()]
    assert arguments_of(b"hf_" + b"a" * MAX_BYTES) == []
