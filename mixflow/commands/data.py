"""`mixflow data`: fetch the full MNIST for Mnist(source=…)."""

import json

from .common import DONE, JSON

SUMMARY = "Fetch the full MNIST for Mnist(source=…)."
EXAMPLE = "mixflow data mnist --to mnist"


def flags():
    return [
        (["name"], {"choices": ["mnist"], "help": "the dataset to fetch: 11.6 MB, checked against pinned checksums"}),
        (["--to"], {"metavar": "DIR", "help": "folder for the files (default: mixflow's cache)"}),
        (["--base-url"], {"metavar": "URL", "help": "another place that holds the same four files"}),
        *JSON,
    ]


def run(options):
    from ..progress import Progress
    from ..tasks.download import MIRROR, download
    from ..tasks.mnist_files import read_digits

    bars = {}

    def show(name, done, total):
        if name not in bars:
            bars[name] = Progress(unit="byte", label=f"{name} ")
        bars[name](done, total or done)

    try:
        folder = download(options.to, mirror=options.base_url or MIRROR, progress=show)
    finally:
        for bar in bars.values():
            bar.close()
    digits = read_digits(str(folder))
    if options.json:
        print(json.dumps({"folder": str(folder), "images": len(digits.labels), "sha256": digits.sha256}))
    else:
        print(
            f"{len(digits.labels)} images in {folder}, checksums as published; use them with Mnist(source={str(folder)!r})"
        )
    return DONE
