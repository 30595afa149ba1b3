"""A proof as a theorem that can be read aloud."""

from fractions import Fraction


def statement(proof):
    """Theorem, times and premises, as lines of text."""
    lines = [
        "Theorem (computer-assisted). Let the mean-field transformer with"
        f" {parameter('ω', proof.omega)} and {parameter('b', proof.bias)}",
        f"learn the uniform mixture of K = {proof.classes} classes by gradient flow, all weights at once.",
    ]
    if proof.distance:
        lines[0] = lines[0].replace("the mean-field transformer", "a transformer")
        lines[1] += (
            f"\nIts keys and queries start within {rounded_down(proof.distance)} of mean-field, as those of a random one of width"
            f" {proof.width:,} or more do with probability 0.99."
        )
    parts = []
    if proof.switch_off:
        low, high = proof.switch_off
        parts.append(f"Every neuron is active until t = {rounded_down(low)}; one is silent at t = {rounded_up(high)}.")
    if proof.time:
        low, high = proof.time
        level, until = _decimal(proof.level), rounded_down(low)
        parts.append(f"The loss is above {level} until t = {until} and below it from t = {rounded_up(high)} on.")
    if proof.right_from is not None:
        parts.append(
            f"Every sample is classified rightly from t = {rounded_up(proof.right_from)} to t = {rounded_down(proof.end)}."
        )
    if proof.wrong_at is not None:
        parts.append(f"At t = {rounded_up(proof.wrong_at)} some sample is still classified wrongly.")
    parts.append(
        f"Until t = {rounded_down(proof.end)} the weights are within {rounded_up(proof.radius)} of a known piecewise polynomial."
    )
    lines += [f"  {number}. {part}" for number, part in enumerate(parts, 1)]
    lines.append(f"Proof. {proof.cells} cells of time, every rounding error bounded; premise: IEEE 754 arithmetic. ∎")
    return "\n".join(lines)


def parameter(symbol, ends):
    """ "ω = 0.3" or "every ω in [0.2, 0.4]"."""
    low, high = (_decimal(end) for end in ends)
    return f"{symbol} = {low}" if low == high else f"every {symbol} in [{low}, {high}]"


def _decimal(fraction):
    """A fraction whose denominator divides a power of ten, exactly; any other as p/q."""
    text = repr(float(fraction))
    return text if Fraction(text) == fraction else str(fraction)


def rounded_down(x):
    """Twelve digits, rounded down."""
    return _rounded(x, lambda shown: Fraction(shown) <= Fraction(x))


def rounded_up(x):
    """Twelve digits, rounded up."""
    return _rounded(x, lambda shown: Fraction(shown) >= Fraction(x))


def _rounded(x, right):
    digits = 12 if abs(x) >= 1e-3 else 3
    shown = f"{x:.{digits}g}"
    step = Fraction(10) ** (int(f"{x:e}".split("e")[1]) - digits + 1)
    if right(shown):
        return shown
    candidates = (f"{float(Fraction(shown) + sign * step):.{digits}g}" for sign in (1, -1))
    return next(shown for shown in candidates if right(shown))
