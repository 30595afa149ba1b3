"""WHO learns: the transformer as a specification, and the exact engines that train it, all of one shape.

An engine has `key` (what its compiled program depends on), `lanes` (runs per program), `start(transformer)`,
`parameters(transformers, eta_w, eta_A)`, `stack`/`unstack` (single runs to lanes and back), `step(i, state, parameters)`,
`observe(state, parameters)` (what a save records) and `final(state)` (what a continued run needs beyond the last save).
"""
