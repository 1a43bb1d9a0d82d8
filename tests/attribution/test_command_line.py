from __future__ import annotations

import pytest

from pulsed.attribution.command_line import MAX_TEXT, masked_command


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["python", "train.py", "--epochs", "3"], "python train.py --epochs 3"),
        (["x", "--token=abc", "--API-KEY", "abc", "--lr", "1"], "x --token=*** --API-KEY *** --lr 1"),
        (["env", "WANDB_API_KEY=abc", "HF_TOKEN=abc", "x"], "env WANDB_API_KEY=*** HF_TOKEN=*** x"),
        (["curl", "-u", "ann:abc", "-H", "Authorization: Bearer abc d"], "curl -u *** -H Authorization: ***"),
        (["psql", "postgres://ann:abc@db/x"], "psql postgres://***@db/x"),
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
