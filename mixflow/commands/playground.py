"""`mixflow playground`: the page on which one watches it learn."""

from .common import DONE

SUMMARY = "Open the page: move a slider, watch a transformer learn, drag time back."
EXAMPLE = "mixflow playground --port 8765"


def flags():
    return [
        (["--port"], {"type": int, "default": 8765, "help": "port on this machine; 0 takes any free one"}),
        (["--export"], {"metavar": "FILE.html", "help": "write the page as one file that needs no server, and stop"}),
        (["--token"], {"help": "the token in the page's address; a new one for every start if not given"}),
        (["--no-browser"], {"action": "store_true", "help": "do not open a browser"}),
    ]


def run(options):
    from ..checks import whole
    from ..extras import needs

    if options.export:
        return _export(options.export)
    needs("playground")
    from ..playground.server import serve

    serve(whole("port", options.port, least=0, most=65535), browser=not options.no_browser, token=options.token)
    return DONE


def _export(path):
    from ..playground.page import exported
    from ..sealed import write_whole

    written = write_whole(path, exported().encode())
    print(f"written: {written}   (open it in a browser; it needs no server)")
    return DONE
