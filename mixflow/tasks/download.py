"""Fetching the full MNIST with pooch: four files with pinned checksums, each kept once fetched."""

from ..errors import StoreError
from ..extras import needs
from ..jaxed import cache_directory
from ..sealed import make_folder
from .mnist_files import TEST, TRAIN

# The original site no longer serves the files reliably; this is the mirror torchvision uses. Any place that holds the same
# bytes serves: the checksums decide, not the address.
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"


def download(folder=None, *, mirror=MIRROR, progress=None):
    """Fetch what is missing into `folder` (default: mnist/ in the cache); returns the folder, ready for Mnist(source=…).

    progress  called with (file name, bytes done, bytes in all)

    Raises StoreError where a file cannot be fetched, written, or is not the one whose checksum is pinned.
    """
    needs("images")
    import pooch
    import requests

    files = {**TRAIN, **TEST}
    folder = make_folder(cache_directory() / "mnist" if folder is None else folder)
    store = pooch.create(
        path=folder,
        base_url=mirror if mirror.endswith("/") else f"{mirror}/",
        registry={name: f"sha256:{sha}" for name, sha in files.items()},
    )
    pooch.get_logger().setLevel("ERROR")
    for name in files:
        bar = _Bar(name, progress) if progress else False
        try:
            store.fetch(name, downloader=pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=30))
        except requests.RequestException as error:
            raise StoreError(
                f"could not fetch {store.get_url(name)}: {_reason(error)}; run the command again."
            ) from None
        except OSError as error:
            raise StoreError(
                f"cannot write to {folder}: {error.strerror or error}; choose another with --to."
            ) from None
        except ValueError:  # pooch compares the checksums
            raise StoreError(
                f"{store.get_url(name)} is not the published file, its SHA-256 checksum differs: it was dropped; use another "
                "--base-url."
            ) from None
    return folder


class _Bar:
    """pooch's idea of a progress bar."""

    def __init__(self, name, progress):
        self.name, self.progress, self.total, self.done = name, progress, 0, 0

    def update(self, size):
        self.done = min(self.done + size, self.total)
        self.progress(self.name, self.done, self.total)

    def reset(self):
        self.done = 0

    def close(self):
        pass


def _reason(error):
    answer = getattr(error, "response", None)
    if answer is not None:
        return f"the server answered {answer.status_code} {answer.reason}"
    return "no connection" if "onnection" in type(error).__name__ else " ".join(str(error).split())
