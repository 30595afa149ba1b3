"""Fetching the full MNIST: four files with pinned checksums, kept once fetched, continued where a download broke off."""

import pathlib

from ..errors import StoreError
from ..jaxed import cache_directory
from .idx import TEST, TRAIN, digest

# The original site no longer serves the files reliably; this is the mirror torchvision uses. Any place that holds the same
# bytes serves: the checksums decide, not the address.
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
CHUNK = 2**13  # bytes; what a broken connection loses at most


def download(folder=None, *, mirror=MIRROR, progress=None):
    """Fetch what is missing into `folder` (default: mnist/ in the cache); returns the folder, ready for Mnist(source=…).

    progress  called with (file name, bytes done, bytes in all or None)
    """
    import pooch

    folder = cache_directory() / "mnist" if folder is None else pathlib.Path(folder)
    files = {**TRAIN, **TEST}
    store = pooch.create(
        path=folder,
        base_url=mirror if mirror.endswith("/") else f"{mirror}/",
        registry={name: f"sha256:{sha}" for name, sha in files.items()},
    )
    pooch.get_logger().setLevel("ERROR")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder {folder}: {error.strerror}; choose another with --to.") from None
    for name, expected in files.items():
        note = lambda done, total, name=name: progress and progress(name, done, total)  # noqa: E731
        store.fetch(name, downloader=_Resuming(folder / f"{name}.part", expected, note))
    return folder


class _Resuming:
    """A downloader for pooch that keeps what it has in `part` and asks for the rest only."""

    def __init__(self, part, expected, note):
        self.part, self.expected, self.note = part, expected, note

    def __call__(self, url, output_file, _pooch):
        import requests

        try:
            self._fill(requests, url)
        except (requests.RequestException, OSError) as error:
            raise StoreError(
                f"could not fetch {url}: {_reason(error)}; what arrived is kept, run the command again to go on."
            ) from None
        found = digest(self.part)
        if found != self.expected:
            self.part.unlink()
            raise StoreError(
                f"{url} gave a file with the SHA-256 checksum {found}: expected {self.expected}; it was dropped."
            )
        self.part.replace(output_file)

    def _fill(self, requests, url):
        have = self.part.stat().st_size if self.part.exists() else 0
        header = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        with requests.get(url, headers=header, stream=True, timeout=30) as answer:
            if answer.status_code == 416:  # nothing is left to send: the part is whole
                return
            answer.raise_for_status()
            fresh = answer.status_code != 206  # a server that cannot resume sends everything
            done = 0 if fresh else have
            length = answer.headers.get("Content-Length")
            total = done + int(length) if length else None
            with open(self.part, "wb" if fresh else "ab") as file:
                for chunk in answer.iter_content(CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    self.note(done, total)
            if total is not None and done < total:
                raise OSError(f"the connection ended after {done} of {total} bytes")


def _reason(error):
    answer = getattr(error, "response", None)
    if answer is not None:
        return f"the server answered {answer.status_code} {answer.reason}"
    return "no connection" if "onnection" in type(error).__name__ else str(error)
