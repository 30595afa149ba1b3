"""A progress bar on stderr: how far, how fast, how long still."""

import sys
import time


class Progress:
    """Call it with (done, total); it redraws at most ten times a second, and only on a terminal unless `always`."""

    def __init__(self, unit="step", label="", stream=None, always=False):
        self.unit, self.label = unit, label
        self.stream = sys.stderr if stream is None else stream
        self.shown = always or self.stream.isatty()
        self.began = time.perf_counter()
        self.last, self.width = 0.0, 0

    @classmethod
    def of(cls, choice, unit="step"):
        """A bar for True, silence for False, or the caller's own function wrapped to look like a bar."""
        if choice is True:
            return cls(unit)
        return _Function(choice or (lambda done, total: None))

    def __call__(self, done, total):
        now = time.perf_counter()
        if not self.shown or (now - self.last < 0.1 and done < total):
            return
        self.last = now
        elapsed = now - self.began
        rate = done / elapsed if elapsed > 0 else 0.0
        left = (total - done) / rate if rate else 0.0
        filled = int(24 * done / total) if total else 24
        line = (
            f"\r{self.label}{'█' * filled}{'░' * (24 - filled)} {100 * done / max(total, 1):3.0f} %  "
            f"{rate:,.0f} {self.unit}s/s  {duration(left)} left"
        )
        self.stream.write(line.ljust(self.width))
        self.width = len(line)
        self.stream.flush()

    def close(self):
        """Clear the line."""
        if self.shown and self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()


class _Function:
    def __init__(self, function):
        self.function = function

    def __call__(self, done, total):
        self.function(done, total)

    def close(self):
        pass


def duration(seconds):
    """Seconds as m:ss or h:mm:ss."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
