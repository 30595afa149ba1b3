"""Certificates for a scheduler at a tls:// address: checked by one handshake of our own, so that a wrong one has a reason.

Dask itself tries again until its time is over and then says that it took too long, whatever the cause.
"""

import contextlib
import json
import pathlib
import socket
import ssl
from urllib.parse import urlsplit

from ..errors import SpecError

SECONDS = 3  # for the connection, and for the handshake
FILES = "--tls-ca, --tls-cert and --tls-key"


def security(place):
    """Dask's Security for the place, or None where there is no TLS; a SpecError that names what is wrong."""
    given = {"tls_ca_file": place.tls_ca, "tls_client_cert": place.tls_cert, "tls_client_key": place.tls_key}
    address = _address(place.scheduler)
    encrypted = address.startswith("tls://")
    if not any(given.values()):
        if encrypted:
            raise SpecError(f"{address} needs certificates: give {FILES}, the files made for the cluster.")
        return None
    missing = [name for name, path in zip(("ca", "cert", "key"), given.values()) if not path]
    if missing:
        raise SpecError(f"--tls-{missing[0]} is missing: TLS needs {FILES}.")
    from distributed.security import Security

    for path in given.values():
        open(path, "rb").close()  # a file that is not there is told as such
    found = Security(require_encryption=True, **given)
    try:
        context = found.get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        raise SpecError(
            f"the files of {FILES} are not an authority, a certificate and its key ({_reason(error)})."
        ) from None
    if encrypted:
        _shake_hands(address, context)
    return found


def _address(scheduler):
    """The address itself, read from the file that the scheduler wrote if that was given."""
    if not scheduler.endswith(".json"):
        return scheduler
    with contextlib.suppress(
        OSError, ValueError, KeyError, TypeError
    ):  # the client will say what is wrong with the file
        return str(json.loads(pathlib.Path(scheduler).read_text())["address"])
    return scheduler


def _shake_hands(address, context):
    where = urlsplit(address)
    try:
        with socket.create_connection((where.hostname, where.port or 8786), SECONDS) as plain:
            plain.settimeout(SECONDS)
            # Since TLS 1.3 the other side may refuse our certificate after the handshake: its refusal is the first thing to
            # read. Dask's greeting, or silence, means that it did not.
            with (
                context.wrap_socket(plain, server_hostname=where.hostname) as channel,
                contextlib.suppress(TimeoutError),
            ):
                channel.settimeout(1)
                channel.recv(1)
    except ssl.SSLError as error:
        raise SpecError(
            f"the scheduler at {address} and this client do not accept each other's certificates ({_reason(error)}): "
            f"{FILES} must be the files made for that cluster."
        ) from None


def _reason(error):
    """OpenSSL's words without its line numbers."""
    text = (getattr(error, "reason", None) or str(error)).strip()
    return text.lower().replace("_", " ") if text.isupper() else text.splitlines()[0]
