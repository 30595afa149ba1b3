"""How far, how fast, how long still: a line that redraws in a terminal, a bar in a notebook, a line now and then in a log."""

import html
import sys
import time

from .checks import flag
from .errors import SpecError

LOG_FIRST, LOG_SECONDS = 10.0, 30.0  # until the first line in a file, and between two
YEAR = 365 * 86400  # seconds


class Progress:
    """Call it with (done, total) and close it; it shows itself at most ten times a second, in a log now and then."""

    def __init__(self, unit="step", label="", stream=None, always=False):
        self.unit, self.label = unit, label
        self.stream = sys.stderr if stream is None else stream
        self.began = time.perf_counter()
        self.last, self.width, self.facts = 0.0, 0, None
        self.show, self.pause = self._surface(always or self.stream.isatty(), stream)

    def _surface(self, terminal, stream):
        if stream is None and _in_notebook():
            return self._in_cell, 0.1
        if terminal:
            return self._on_terminal, 0.1
        self.last = self.began + LOG_FIRST - LOG_SECONDS  # a short run leaves no line
        return self._in_log, LOG_SECONDS

    @classmethod
    def of(cls, choice, unit="step"):
        """A bar for True, silence for False, or the caller's own function wrapped to look like a bar."""
        if callable(choice):
            return _Function(choice)
        return cls(unit) if choice is not None and _wanted(choice) else _Function(_nothing)

    def __call__(self, done, total):
        now = time.perf_counter()
        self.facts = done, total
        if now - self.last < self.pause and (done < total or self.show == self._in_log):
            return
        self.last = now
        self.show(done, total)

    def text(self, done, total):
        """The facts in words."""
        elapsed = time.perf_counter() - self.began
        rate = done / elapsed if elapsed > 0 else 0.0
        left = (total - done) / rate if rate else 0.0
        speed = f"{rate:,.0f}" if 10 <= rate < 1e9 else f"{rate:.2g}"
        return f"{100 * (done / max(total, 1)):3.0f} %  {speed} {self.unit}s/s  {duration(left)} left"

    def _on_terminal(self, done, total):
        filled = int(24 * (done / total)) if total else 24
        line = f"\r{self.label}{'█' * filled}{'░' * (24 - filled)} {self.text(done, total)}"
        self.stream.write(line.ljust(self.width))
        self.width = len(line)
        self.stream.flush()

    def _in_log(self, done, total):
        self.stream.write(f"{self.label}{self.text(done, total).strip()}\n")
        self.stream.flush()

    def _in_cell(self, done, total):
        from IPython.display import HTML, display

        words = html.escape(f"{self.label}{self.text(done, total)}")
        bar = HTML(
            f'<progress value="{float(done)}" max="{float(max(total, 1e-300))}"></progress> <code>{words}</code>'
        )
        if not self.width:
            self.cell, self.width = display(bar, display_id=True), 1
        else:
            self.cell.update(bar)

    def close(self):
        """Clear the line; a notebook keeps the last state of its bar."""
        if self.show == self._in_cell:
            if self.facts and self.width:
                self._in_cell(*self.facts)
        elif self.show == self._on_terminal and self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()


def _in_notebook():
    """Whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def _wanted(choice):
    try:
        return flag("progress", choice)
    except SpecError as error:
        raise SpecError(f"{str(error).removesuffix('.')}, or a function of (done, total).") from None


def _nothing(done, total):
    pass


class _Function:
    def __init__(self, function):
        self.function = function

    def __call__(self, done, total):
        self.function(done, total)

    def close(self):
        pass


def duration(seconds):
    """Seconds as m:ss or h:mm:ss; beyond a year, infinity included, only that.

    >>> duration(75), duration(3600), duration(float("inf"))
    ('1:15', '1:00:00', 'more than a year')
    """
    if seconds > YEAR:
        return "more than a year"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
