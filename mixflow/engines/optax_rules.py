"""How a gradient becomes a step: plain descent, momentum, sign descent, Adam and AdamW, as Optax transformations."""

from ..extras import needs


def transformation(kind, learning_rate, momentum=0.9, weight_decay=1e-4):
    """The Optax transformation of this kind; numbers may be traced, so runs that differ only in them share a program.

    "momentum" is the heavy ball v ← β v + g, θ ← θ − η v; "sign" moves every weight by ±η; "adam" and "adamw" keep
    Optax's β₁ = 0.9, β₂ = 0.999, ε = 1e-8, and "adamw" shrinks every trained weight by η × weight_decay each step.
    """
    needs("networks")
    import optax

    return {
        "sgd": lambda: optax.sgd(learning_rate),
        "momentum": lambda: optax.sgd(learning_rate, momentum=momentum),
        "sign": lambda: optax.sign_sgd(learning_rate),
        "adam": lambda: optax.adam(learning_rate),
        "adamw": lambda: optax.adamw(learning_rate, weight_decay=weight_decay),
    }[kind]()
