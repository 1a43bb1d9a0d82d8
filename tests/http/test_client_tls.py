from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from tests.support.certificates import make
from tests.support.waiting import SECONDS

USE = """
import sys
from pulsed.http.credentials import BadTlsFiles, ClientTls
try:
    ClientTls("", *sys.argv[1:]).context()
except BadTlsFiles as error:
    print("refused:", error)
"""
IN_A_TERMINAL = "import pty, sys; pty.spawn(sys.argv[1:])"


def test_a_key_with_a_passphrase_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    """Else a daemon in a terminal would wait for ever."""
    pair = make("client")
    certificate, key = pair.write(tmp_path, "client")
    key.write_bytes(pair.key_in(serialization.BestAvailableEncryption(b"hunter2")))
    command = [sys.executable, "-c", IN_A_TERMINAL, sys.executable, "-c", USE, str(certificate), str(key)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
        assert process.stdout is not None
        assert f"refused: {certificate}, {key}: " in process.stdout.read()
