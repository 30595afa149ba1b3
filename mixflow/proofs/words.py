"""A proof as a theorem that can be read aloud."""

from fractions import Fraction

from .claims import SEPARATED

QUANTITIES = {"easy_margin": "the easy margins", "feature_margin": "the feature margin", "loss": "the loss"}
QUANTITIES["loss_hard"] = "the hard samples' loss"
MOVES = {"all": "all weights", "w": "w", "attention": "W_K and W_Q"}


def statement(proof):
    """Theorem, times and premises, as lines of text."""
    lines = [
        "Theorem (computer-assisted). Let the mean-field transformer with"
        f" {parameter('ω', proof.omega)} and {parameter('b', proof.bias)}",
        f"learn the uniform mixture of K = {proof.classes} classes by gradient flow, {_trained(proof)}.",
    ]
    if proof.distance:
        lines[0] = lines[0].replace("the mean-field transformer", "a transformer")
        lines[1] += (
            f"\nIts keys and queries start within {rounded_down(proof.distance)} of mean-field, as those of a random one of width"
            f" {proof.width:,} or more do with probability 0.99."
        )
    lines += [f"  {number}. {part}" for number, part in enumerate(_parts(proof), 1)]
    checked = "" if proof.tube.frame is None else "; the checker has no frames: it rests on the prover alone"
    lines.append(
        f"Proof. {proof.cells} cells of time, every rounding error bounded; premise: IEEE 754 arithmetic{checked}. ∎"
    )
    return "\n".join(lines)


def _trained(proof):
    """What is trained, stage by stage."""
    if len(proof.ended) == 1:
        return "all weights at once"
    return "; then ".join(f"{MOVES[stage.moves]} {_until(stage.end)}" for stage in proof.ended)


def _until(end):
    if isinstance(end, Fraction):
        return f"for {_decimal(end)} units of time"
    verb = "is" if end.quantity.startswith("loss") else "reach" if end.quantity == "easy_margin" else "reaches"
    return f"until {QUANTITIES[end.quantity]} {verb} {end.threshold:g}"


def _parts(proof):
    """The claims, one sentence each."""
    if proof.switch_off:
        low, high = proof.switch_off
        yield f"Every neuron is active until t = {rounded_down(low)}; one is silent at t = {rounded_up(high)}."
    named = dict(zip(("neurons", "attention", "convergence"), (stage.end for stage in proof.ended)))
    for name, (low, high) in proof.stages:
        if proof.ended[0].name:
            why = f"{_until(named[name])}"
        else:
            why = (
                "until a neuron is silent" if name == "neurons" else "until the hard samples' loss is half its plateau"
            )
        yield f"The stage of {name}, {why}, ends between t = {rounded_down(low)} and t = {rounded_up(high)}."
    if proof.separated:
        low, high = proof.separated
        yield f"The feature margin reaches {float(SEPARATED):g} between t = {rounded_down(low)} and t = {rounded_up(high)}."
    if proof.level is not None:
        low, high = proof.time
        level, until = _decimal(proof.level), rounded_down(low)
        yield f"The loss is above {level} until t = {until} and below it from t = {rounded_up(high)} on."
    elif proof.time:
        low, high = proof.time
        yield f"All this is until {_until(proof.ended[-1].end)[6:]}: between t = {rounded_down(low)} and t = {rounded_up(high)}."
    if proof.right_from is not None:
        yield f"Every sample is classified rightly from t = {rounded_up(proof.right_from)} to t = {rounded_down(proof.end)}."
    if proof.wrong_at is not None:
        yield f"At t = {rounded_up(proof.wrong_at)} some sample is still classified wrongly."
    end, radius = rounded_down(proof.end), rounded_up(proof.radius)
    yield f"Until t = {end} the weights are within {radius} of a known piecewise polynomial."


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
