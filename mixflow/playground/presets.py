"""Settings that tell a story: each names what it shows and what differs from the defaults."""

PRESETS = [
    {
        "name": "The paper's figure",
        "story": "Two mixtures at width 256. First the neurons learn the easy samples, then the loss sits on a plateau while "
        "attention finds which identifier belongs to which signal, then everything converges.",
        "state": {"width": "256"},
    },
    {
        "name": "Infinite width",
        "story": "The mean-field limit: no randomness is left, 22 numbers tell the whole story, the same three stages remain.",
        "state": {},
    },
    {
        "name": "Descent against flow",
        "story": "Gradient flow is descent with an infinitely small step. Neurons do not only switch on and off: look at the "
        "switchboard, some slide along their edge for hundreds of units of time.",
        "state": {"method": "flow", "compare": "gd"},
    },
    {
        "name": "The paper's three stages",
        "story": "Algorithm 1 trains neurons, attention and neurons again, one after the other; compare with all at once.",
        "state": {"method": "three", "compare": "gd"},
    },
    {
        "name": "Three mixtures",
        "story": "One class more: the same mechanism, about three times as long.",
        "state": {"classes": 3, "steps": 40_000},
    },
    {
        "name": "Fifty mixtures",
        "story": "Fifty identifiers and fifty signals: 50·2^50 samples, exactly, because the two symmetric sectors close. The "
        "contrast sector alone learns the hidden link, after a plateau of a million units of time "
        "(the step is large, so descent rattles where the loss falls).",
        "state": {"classes": 50, "omega": 1.0, "learning_rate": 500.0, "steps": 5000},
    },
    {
        "name": "What breaks: a seed at small width",
        "story": "Width 4: chance decides how much attention each class starts with, and some seeds take much longer.",
        "state": {"width": "4", "seed": 1},
    },
    {
        "name": "What breaks: tied values",
        "story": "With w_− = −w_+ the identifier cannot be read as a key; watch which scores grow instead.",
        "state": {"tie_values": True},
    },
    {
        "name": "What breaks: a large step",
        "story": "Descent with a learning rate of 8: neurons flicker on and off, the stages blur.",
        "state": {"learning_rate": 8.0, "steps": 2000},
    },
]
