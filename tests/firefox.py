"""Debian's Firefox, driven by WebDriver BiDi over a socket: Playwright drives only a Firefox of its own."""

import contextlib
import itertools
import json
import re
import shutil
import subprocess
import threading
import time

# Nothing but the page: no first-run pages, no updates, no telemetry; a proxy that is not there keeps everything else out.
PREFERENCES = {
    "app.normandy.enabled": False, "app.update.disabledForTesting": True, "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False, "browser.startup.page": 0, "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
    "network.proxy.type": 1, "network.proxy.http": "127.0.0.1", "network.proxy.http_port": 9, "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9, "remote.prefs.recommended": True, "toolkit.telemetry.reportingpolicy.firstRun": False,
}  # fmt: skip


def find_firefox():
    """The path of a Firefox, or None."""
    return next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)


class Firefox:
    """One tab. `said` collects what the console says and every error of the page."""

    def __init__(self, socket):
        self.socket, self.numbers, self.said = socket, itertools.count(1), []
        self.send("session.new", capabilities={})
        self.tab = self.send("browsingContext.create", type="tab")["context"]
        self.send("session.subscribe", events=["log.entryAdded"])

    def send(self, method, seconds=60, **parameters):
        """The result of a command; an AssertionError if Firefox refuses it."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        end = time.monotonic() + seconds
        while True:
            answer = json.loads(self.socket.recv(timeout=max(0.1, end - time.monotonic())))
            if answer.get("method") == "log.entryAdded":
                self.said.append(answer["params"]["text"])
            if answer.get("id") == number:
                assert answer["type"] == "success", answer
                return answer["result"]

    def open(self, address):
        self.send("browsingContext.navigate", context=self.tab, url=address, wait="complete")

    def resize(self, width, height):
        self.send("browsingContext.setViewport", context=self.tab, viewport={"width": width, "height": height})

    def evaluate(self, expression):
        """The value of a JavaScript expression, awaited, through JSON."""
        code = f"(async () => JSON.stringify((await ({expression})) ?? null))()"
        answer = self.send("script.evaluate", expression=code, target={"context": self.tab}, awaitPromise=True)
        assert answer["type"] == "success", answer["exceptionDetails"]["text"]
        return json.loads(answer["result"]["value"])

    def until(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while not self.evaluate(expression):
            assert time.monotonic() < end, f"{expression} did not come true within {seconds} s"
            time.sleep(0.05)


@contextlib.contextmanager
def firefox(path, profile):
    """A Firefox without a window, with a fresh profile in the folder `profile`; ended by its own process id."""
    from websockets.sync.client import connect

    lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items())
    (profile / "user.js").write_text("\n".join(lines))
    words = [path, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        slow = threading.Timer(90, process.kill)  # reading its lines has no limit of its own
        slow.start()
        found = next(filter(None, (re.search(r"ws://[\d.:]+", line) for line in process.stderr)), None)
        slow.cancel()
        assert found, f"{path} did not listen within 90 s"
        threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would stop it
        with connect(f"{found[0]}/session", max_size=None, proxy=None) as socket:
            yield Firefox(socket)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        process.stderr.close()
