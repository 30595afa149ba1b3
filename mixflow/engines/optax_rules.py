"""How a gradient becomes a step: plain descent, momentum, sign descent, Adam and AdamW, as Optax transformations."""

from ..extras import needs


def transformation(kind, learning_rate, momentum=None, weight_decay=0.0):
    """The Optax transformation of this kind; numbers may be traced, so runs that differ only in them share a program.

    "sgd" and "momentum" are the heavy ball v ← β v + g + λ θ, θ ← θ − η v; "sign" moves every weight by ±η; "adam" and
    "adamw" keep Optax's β₁ = 0.9, β₂ = 0.999, ε = 1e-8, and "adamw" shrinks every trained weight by η × weight_decay each step.
    """
    needs("networks")
    import optax

    if kind in ("sgd", "momentum"):
        return optax.chain(optax.add_decayed_weights(weight_decay), optax.sgd(learning_rate, momentum=momentum))
    if kind == "adamw":
        return optax.adamw(learning_rate, weight_decay=weight_decay)
    return {"sign": optax.sign_sgd, "adam": optax.adam}[kind](learning_rate)
