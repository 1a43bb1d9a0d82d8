"""The adapter's certificate, which its replicas share in a Secret, and the authority of the API server's certificate.

The certificate is its own authority. It is renewed after two thirds of its time; the APIServices trust the old one
until it ends, because other replicas may still use it. The files are those that the web configuration names.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from pulsed.apps.adapter.settings import ServingSettings
from pulsed.errors import PulsedError
from pulsed.kubernetes.api_client import ApiClient, KubernetesError, ResourceConflict
from pulsed.kubernetes.objects import mapping, text

log = logging.getLogger(__name__)

DAYS = 90
"""How long a certificate is valid."""

CHECK_SECONDS = 20.0
"""Time between two looks at the objects: what someone else emptied is repaired after half a minute."""

RETRY_SECONDS = 5.0
"""The same, before the first that succeeds."""

CERTIFICATE, KEY, TRUSTED, CLIENT_CA = "tls.crt", "tls.key", "ca.crt", "front-proxy-ca.crt"
"""Files, and keys of the Secret but for the last: `TRUSTED` has the certificate and those before that are valid."""

AUTHENTICATION = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
"""What the API server publishes about its certificate as a client."""

_OPENSSL_SECONDS = 30.0
_REQUEST = """[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = pulsed-adapter
[extensions]
basicConstraints = critical, CA:TRUE
keyUsage = critical, digitalSignature, keyCertSign
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
subjectAltName = DNS:{host}
"""


class CertificateError(PulsedError):
    """A certificate could not be made or read."""


class ServingCertificate:
    """Keeps the files current.

    Args:
        folder: of the files.
        namespace: of the Secret.
        wall: returns the Unix time.

    Attributes:
        client_names: common names that the API server's certificate may have; empty: any that its authority signed.
    """

    def __init__(
        self,
        client: ApiClient,
        settings: ServingSettings,
        folder: str,
        namespace: str,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._settings, self._wall = client, settings, wall
        self._folder = Path(folder)
        self._secret = f"/api/v1/namespaces/{namespace}/secrets/{settings.secret}" if settings.secret else ""
        self._host = f"{settings.service}.{namespace}.svc"
        self.client_names: Collection[str] = ()

    async def refresh(self) -> None:
        """Bring Secret, APIServices and files up to date.

        Raises:
            KubernetesError: an object could not be read or written.
            CertificateError: no certificate could be made.
        """
        authentication = mapping((await self._client.get(AUTHENTICATION)).get("data"))
        client_ca = text(authentication.get("requestheader-client-ca-file"))
        if not client_ca:
            raise CertificateError(
                "the API server publishes no authority of its client certificate",
                "Enable the aggregation layer of the cluster: requestheader-client-ca-file",
            )
        names = _texts(text(authentication.get("requestheader-allowed-names")))
        files = {CLIENT_CA: client_ca.encode()}
        if self._secret:
            files |= await self._shared()
        self.client_names = names
        for file, content in files.items():
            self._write(file, content)

    async def run(self) -> None:
        """Refresh until cancelled; what failed is tried again, and the files stay."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.try_refresh()

    async def wait(self) -> None:
        """Return when there are files."""
        while not await self.try_refresh():  # noqa: ASYNC110 # it polls the API server
            await asyncio.sleep(RETRY_SECONDS)

    async def try_refresh(self) -> bool:
        """Refresh; return whether it worked. Failures are logged."""
        try:
            await self.refresh()
        except (KubernetesError, CertificateError, OSError) as error:
            log.warning("the adapter's certificate cannot be kept current", extra={"error": str(error)})
            return False
        return True

    async def _shared(self) -> Mapping[str, bytes]:
        """Return certificate and key, which the API server trusts."""
        try:
            secret = await self._current_secret()
        except ResourceConflict:  # another replica was first
            secret = await self._current_secret()
        for name in self._settings.api_services:
            await self._trust(name, secret[TRUSTED])
        return secret

    async def _current_secret(self) -> Mapping[str, bytes]:
        """Return the content of the Secret, after a renewal if that is due."""
        secret = await self._client.get(self._secret)
        encoded_files = mapping(secret.get("data"))
        data = {name: _decoded(text(encoded_files.get(name))) for name in (CERTIFICATE, KEY, TRUSTED)}
        valid_from, valid_until = _validity(data[CERTIFICATE])
        due = valid_from + (valid_until - valid_from) * 2 / 3
        if self._wall() < due and data[KEY] and data[CERTIFICATE] in data[TRUSTED]:
            return data
        certificate, key = await asyncio.to_thread(make_certificate, self._host)
        before = data[CERTIFICATE] if valid_until > self._wall() else b""
        new = {CERTIFICATE: certificate, KEY: key, TRUSTED: certificate + before}
        encoded = {name: base64.b64encode(content).decode() for name, content in new.items()}
        await self._client.put(self._secret, {**secret, "data": {**encoded_files, **encoded}})
        log.info("the adapter's certificate is renewed", extra={"host": self._host, "days": DAYS})
        return new

    async def _trust(self, name: str, trusted: bytes) -> None:
        """Have the API server verify the adapter by these certificates."""
        path = f"/apis/apiregistration.k8s.io/v1/apiservices/{name}"
        bundle = base64.b64encode(trusted).decode()
        spec = mapping((await self._client.get(path)).get("spec"))
        if spec.get("caBundle") != bundle or spec.get("insecureSkipTLSVerify"):
            await self._client.merge(path, {"spec": {"caBundle": bundle, "insecureSkipTLSVerify": None}})

    def _write(self, name: str, content: bytes) -> None:
        path = self._folder / name
        if path.exists() and path.read_bytes() == content:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:  # only its owner may read it
            file.write(content)
        os.replace(file.name, path)


def make_certificate(host: str) -> tuple[bytes, bytes]:
    """Return a new certificate for a host, which is its own authority, and its key, in PEM. Blocks.

    Raises:
        CertificateError: `openssl` is missing or failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        config, key = Path(folder, "request.cnf"), Path(folder, "key")
        config.write_text(_REQUEST.format(host=host))
        command: Sequence[str] = (
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-sha256", "-days", str(DAYS), "-config", str(config), "-keyout", str(key)),
        )
        try:
            done = subprocess.run(command, capture_output=True, timeout=_OPENSSL_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CertificateError(f"openssl cannot be run: {error}", "Install openssl") from error
        if done.returncode != 0:
            raise CertificateError(f"openssl failed: {done.stderr.decode(errors='replace')[-300:]}", "See its message")
        return done.stdout, key.read_bytes()


def _validity(certificate: bytes) -> tuple[float, float]:
    """Return from when until when the first certificate of a text is valid, in Unix seconds; 0 without one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=certificate.decode("ascii"))
        (ca, *_) = context.get_ca_certs()
        return ssl.cert_time_to_seconds(str(ca["notBefore"])), ssl.cert_time_to_seconds(str(ca["notAfter"]))
    except (ValueError, KeyError, ssl.SSLError):
        return 0.0, 0.0


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        return b""


def _texts(text: str) -> Collection[str]:
    """Return the strings of a JSON list; empty if the text is not a JSON list."""
    try:
        values: object = json.loads(text)
    except ValueError:
        return ()
    return tuple(each for each in values if isinstance(each, str)) if isinstance(values, list) else ()
