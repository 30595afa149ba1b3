"""`mixflow playground`: the page on which one watches it learn."""

from .common import DONE

SUMMARY = "Open the page: move a slider, watch a transformer learn, drag time back."
EXAMPLE = "mixflow playground --port 8765"


def flags():
    return [
        (["--port"], {"type": int, "default": 8765, "help": "port on this machine; 0 takes any free one"}),
        (["--no-browser"], {"action": "store_true", "help": "do not open a browser"}),
    ]


def run(options):
    from ..checks import whole
    from ..playground.server import serve

    serve(whole("port", options.port, least=0, most=65535), browser=not options.no_browser)
    return DONE
