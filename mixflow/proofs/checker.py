"""An independent checker of proofs, to be read on its own: it shares no code with the prover and imports nothing of mixflow.

Run it with `python checker.py FILE` or `mixflow prove --check FILE`. ℓ is the loss of the mean-field
transformer on the uniform mixture, in coordinates x ∈ R³⁴ in which training is x' ∈ −∂ℓ(x) (see `Network`). The flow from
the start of ω is within r(t) of the file's polynomial x̂(t) because, verified in balls (Arb) for each cell [t, t+h] of time,
  1. x̂ is continuous, exactly (whole numbers), and begins within r(0) of the start;
  2. neurons with ∂ℓ/∂ReLU < 0 are on in the tube of radius R = 3/2 r(t+h) around x̂, and x̂ has the signs its gates say;
  3. |x̂' + g| ≤ δ for a g ∈ ∂ℓ(x̂);
  4. −∇²ℓ_γ ≤ μ in the tube, for every choice γ of the gates whose sign there is open;
  5. r(t+h) = (r(t) + hδ)(1 + hμ + h²μ²) with 0 ≤ hμ ≤ 1, which is at least e^(hμ) (r(t) + hδ).
So ℓ + μ|x|²/2 is convex on each ball of the tube, |x − x̂|' ≤ μ|x − x̂| + δ, and |x − x̂| ≤ r < R. A proof has one form:
radii agree with 5. to 1e-9, and μ is at most three times what 4. asks for.
"""

import hashlib
import json
import math
import sys
from itertools import pairwise, product

from flint import arb, arb_mat, arb_poly, arb_series, ctx, fmpq

TERMS, LOOSE, ZERO = 8, 3, arb(0)
UNIT, SHARE = arb(0, 1), arb(0.5, 0.5)  # [−1, 1] and [0, 1]


class Refused(Exception):
    """Why a proof is not accepted."""


def demand(condition, reason):
    if not condition:
        raise Refused(reason)


class Network:
    """ℓ(x) and its derivatives. x = (√(2K) w, √2 K₁, √2 Q₁, √(2K−2) K₂, √(2K−2) Q₂): w over (c, v), 4×2 matrices by rows.
    Scores e of key and query (c or v, each): (A₁ + (K−1)A₂)/K for one class, (A₁ − A₂)/K for two, with A = KᵀQ. A sample
    holds c_1, s_1 v_1, …, s_K v_K, its label is s_1. Head − is head + with v → −v: its z is head +'s on the negated signs.
    """

    def __init__(self, K, bias):
        self.K, self.bias, self.scale = K, bias, 1 / arb(2 * K).sqrt()
        signs = [[1] * (n + 1) + [-1] * (K - 1 - n) for n in range(K)]  # label +, n of the other signs +
        self.probability = [fmpq(math.comb(K - 1, n), 2 ** (K - 1)) for n in range(K)]
        signs += [[-s for s in row] for row in signs]
        self.tokens = [[(0, 0, 1)] + [(1, k, s) for k, s in enumerate(row)] for row in signs]  # c or v, class, sign
        own, other = fmpq(1, 2 * K), fmpq(-1, 2 * K * (K - 1))
        self.links = [  # e[row] = Σ factor · x[key] · x[query]
            (4 * apart + 2 * i + j, 2 + 16 * s + 2 * a + i, 10 + 16 * s + 2 * a + j, other if apart and s else own)
            for s, a, i, j, apart in product((0, 1), range(4), (0, 1), (0, 1), (0, 1))
        ]

    def neurons(self, x, second=False):
        """Of each of the 2K neurons: z, ∂z/∂(w, e) (10) and, if wanted, ∂²z (10×10)."""
        zero = x[0] * 0
        e, w = [zero] * 8, [x[0] * self.scale, x[1] * self.scale]
        for row, key, query, factor in self.links:
            e[row] = e[row] + x[key] * x[query] * factor
        up_down = {1: [s.exp() for s in e], -1: [(-s).exp() for s in e]}
        return [self.neuron(tokens, w, up_down, zero, second) for tokens in self.tokens]

    def neuron(self, tokens, w, up_down, zero, second):
        L, z, slope = len(tokens), zero, [zero] * 10
        bend = [[zero] * 10 for _ in range(10 if second else 0)]
        for query in tokens:
            met = [(4 * (k[1] != query[1]) + 2 * k[0] + query[0], k[2] * query[2]) for k in tokens]
            weights = [up_down[sign][place] for place, sign in met]
            whole = 1 / sum(weights[1:], weights[0])
            a = [weight * whole for weight in weights]
            v = [w[kind] * sign for kind, _, sign in tokens]
            mean = sum((p * q for p, q in zip(a, v)), zero)
            z, by_score, by_both = z + mean, [zero] * 10, [zero] * 10  # Σ a ∂s, and Σ a ∂v + Σ a (v − mean) ∂s
            for p, q, (place, sign), (kind, _, s) in zip(a, v, met, tokens):
                d = p * (q - mean)
                by_score[2 + place] = by_score[2 + place] + p * sign
                by_both[2 + place] = by_both[2 + place] + d * sign
                by_both[kind] = by_both[kind] + p * s
                if second:
                    bend[2 + place][2 + place] += d
                    bend[2 + place][kind] += p * (sign * s)
                    bend[kind][2 + place] += p * (sign * s)
            slope = [p + q for p, q in zip(slope, by_both)]
            for i, j in product(range(len(bend)), repeat=2):
                bend[i][j] -= by_score[i] * by_both[j] + by_both[i] * by_score[j]
        return z / L + self.bias, [p / L for p in slope], [[p / L for p in row] for row in bend]

    def pulls(self, neurons, gates):
        """∂ℓ/∂z of each neuron, and p σ(m) σ(−m) and ∂m/∂(w, e) of each sample."""
        pairs = [(neurons[n], gates[n], neurons[n + self.K], gates[n + self.K]) for n in range(self.K)]
        fall = [1 / (1 + (i[0] * on - j[0] * other).exp()) for i, on, j, other in pairs]
        slopes = [[a * on - b * other for a, b in zip(i[1], j[1])] for i, on, j, other in pairs]
        r = [f * p for f, p in zip(fall, self.probability)]
        by_z = [q * s * g for q, s, g in zip(r + r, [-1] * self.K + [1] * self.K, gates)]
        return by_z, [(q * (1 - f), slope) for q, f, slope in zip(r, fall, slopes)]

    def gradient(self, x, neurons, gates):
        """∇ℓ (34)."""
        by_z, _ = self.pulls(neurons, gates)
        g = [sum((r * each[1][i] for r, each in zip(by_z, neurons)), x[0] * 0) for i in range(10)]
        out = [g[0] * self.scale, g[1] * self.scale] + [x[0] * 0] * 32
        for row, key, query, factor in self.links:
            pull = g[2 + row] * factor
            out[key], out[query] = out[key] + pull * x[query], out[query] + pull * x[key]
        return out

    def jacobian(self, x):
        """∂(w, e)/∂x (10×34)."""
        J = arb_mat(10, 34)
        J[0, 0] = J[1, 1] = self.scale
        for row, key, query, factor in self.links:
            J[2 + row, key] += x[query] * factor
            J[2 + row, query] += x[key] * factor
        return J

    def hessian(self, neurons, gates, J):
        """∇²ℓ_γ (34×34) for gates 0 or 1, from neurons with second derivatives."""
        by_z, samples = self.pulls(neurons, gates)
        curved = sum((arb_mat(each[2]) * r for r, each in zip(by_z, neurons)), arb_mat(10, 10))
        curved += sum((arb_mat(10, 1, m) * arb_mat(1, 10, m) * bend for bend, m in samples), arb_mat(10, 10))
        H = J.transpose() * curved * J
        for row, key, query, factor in self.links:
            pull = sum((r * each[1][2 + row] for r, each in zip(by_z, neurons)), ZERO) * factor
            H[key, query] += pull
            H[query, key] += pull
        return H


def length(vector):
    return sum((arb(x.abs_upper()) ** 2 for x in vector), ZERO).sqrt()


def relu(z):
    return z if z > 0 else ZERO if z < 0 else arb(z.abs_upper()) * SHARE


def grows_at_most(H, mu):
    """Whether λ_max(−H) ≤ μ for every symmetric H in the balls: by Weyl it is at most λ_max(−middle) + |radii|, where
    |radii| ≤ max_i (radii y)_i / y_i for any y > 0 (Collatz, Wielandt); and μ + middle is positive definite if elimination
    finds positive pivots."""
    n = range(H.nrows())
    entry = [[H[min(i, j), max(i, j)] for j in n] for i in n]
    away = [[1.000001 * float(each.rad()) for each in row] for row in entry]  # floats, well above their rounding
    y = [1.0 for _ in n]
    for _ in range(4):
        y = [sum(p * q for p, q in zip(row, y)) + 1e-200 for row in away]
        y = [max(each / max(y), 1e-6) for each in y]
    spread = max(1.000001 * sum(p * q for p, q in zip(row, y)) / each for row, each in zip(away, y))
    rows = [[each.mid() + (mu - spread if i == j else 0) for j, each in enumerate(row)] for i, row in enumerate(entry)]
    for i in n:
        if not rows[i][i] > 0:
            return False
        for k in n[i + 1 :]:
            factor = rows[i][k] / rows[i][i]
            for j in n[k:]:
                rows[k][j] -= factor * rows[i][j]
    return True


class Cell:
    """One stretch of time: x̂ as series in σ ∈ [−1, 1] about its middle and about all of its points."""

    def __init__(self, proof, k):
        cells = proof["cells"]
        self.piece, begin, end = proof["pieces"][cells["piece"][k]], cells["begin"][k], cells["end"][k]
        self.delta, self.mu, self.radius = (arb(cells[name][k]) for name in ("delta", "mu", "radius"))
        self.time, self.open = arb(fmpq(end - begin, 2 ** proof["tick_bits"])), "?" in self.piece["gates"]
        self.gates = [{"0": 0, "1": 1, "?": SHARE}[letter] for letter in self.piece["gates"]]
        self.polynomials = [arb_poly([fmpq(c, 2 ** proof["quantum_bits"]) for c in p]) for p in zip(*self.piece["x"])]
        half, middle = (self.s(end) - self.s(begin)) / 2, (self.s(end) + self.s(begin)) / 2
        self.middle, self.whole = (
            [p(arb_poly([centre, half])).coeffs() + [ZERO] * (TERMS + 1) for p in self.polynomials]
            for centre in (middle, middle + half * UNIT)
        )
        self.box = [m[0] + m[1] * UNIT + w[2] * SHARE for m, w in zip(self.middle, self.whole)]

    def s(self, ticks):
        begin, end = self.piece["begin"], self.piece["end"]
        return arb(fmpq(2 * ticks - begin - end, end - begin))

    def residual(self, network, about):
        """A bound of |x̂' + g| over the cell: Taylor's coefficients about the middle, the last one about every point."""
        rate = 2 / self.time
        if self.open:
            g = network.gradient(self.box, network.neurons(self.box), self.gates)
            return length([w[1] * rate + p for w, p in zip(self.whole, g)])
        g, g_all = (network.gradient(x, neurons, self.gates) for x, neurons in about)
        total, last = [], TERMS - 1
        for m, w, p, q in zip(self.middle, self.whole, g, g_all):
            terms = [m[j + 1] * (j + 1) * rate + p[j] for j in range(last)] + [w[TERMS] * TERMS * rate + q[last]]
            total.append(sum((arb(t.abs_upper()) for t in terms), ZERO))
        return length(total)

    def check(self, network, before):
        """Conditions 2 to 5; returns z and the margins in the tube."""
        R, K = self.radius * 3 / 2, network.K
        box = [x + R * UNIT for x in self.box]
        series = ([arb_series(c[:TERMS], TERMS) for c in each] for each in (self.middle, self.whole))
        about = [(x, network.neurons(x)) for x in series]
        neurons, J = network.neurons(box, second=True), network.jacobian(box)
        slopes = [length((arb_mat([slope]) * J).entries()) for _, slope, _ in neurons]
        curve = [m[0][0] + w[0][1] * UNIT for m, w in zip(about[0][1], about[1][1])]
        tube = [z + slope * R * UNIT for z, slope in zip(curve, slopes)]
        for i, (gate, z) in enumerate(zip(self.piece["gates"], curve)):
            demand(i >= K or (gate == "1" and tube[i] > 0), "a neuron that pushes itself on may be silent")
            demand(gate == "?" or (z > 0 if gate == "1" else z < 0), "x̂ has another sign than its gate")
        demand(self.residual(network, about) <= self.delta, "the residual is larger than δ")
        choices = product(*([1] if z > 0 else [0] if z < 0 else [0, 1] for z in tube))
        hessians = [network.hessian(neurons, gates, J) for gates in choices]
        demand(all(grows_at_most(H, self.mu) for H in hessians), "the Hessian allows faster growth than μ")
        demand(not all(grows_at_most(H, self.mu / LOOSE) for H in hessians), "μ is larger than the Hessian asks for")
        x = self.time * self.mu
        grown = (before + self.time * self.delta) * (1 + x + x * x)
        demand(x >= 0 and x <= 1, "a cell is too long for its μ")
        demand(grown <= self.radius <= grown * (1 + arb(1e-9)), "the radius is not the one of μ and δ")
        return tube, [self.margin(about, n, n + K, slopes, tube) for n in range(K)]

    def margin(self, about, n, k, slopes, tube):
        if self.open:
            return relu(tube[n]) - relu(tube[k])
        m, w = (neurons[n][0] * self.gates[n] - neurons[k][0] * self.gates[k] for _, neurons in about)
        size = sum((arb(m[j].abs_upper()) for j in range(1, TERMS - 1)), arb(w[TERMS - 1].abs_upper()))
        return m[0] + (size + self.radius * (slopes[n] + slopes[k])) * UNIT


def check_form(proof):
    """Every list has its length, the polynomials meet exactly, the cells follow one another inside them."""
    pieces, cells, K = proof["pieces"], proof["cells"], proof["classes"]
    demand(proof["format"] == "mixflow proof 1" and K in range(2, 9), "the format is another")
    n, begins, ends = len(cells["radius"]), cells["begin"], cells["end"]
    demand(n > 0 and all(len(each) == n for each in cells.values()), "a cell is incomplete")
    whole = [*begins, *ends, *cells["piece"], *(c for piece in pieces for row in piece["x"] for c in row)]
    demand(all(type(number) is int for number in whole), "a number is not whole")
    for piece in pieces:
        demand(len(piece["gates"]) == 2 * K and set(piece["gates"]) <= set("01?"), "a sign condition is missing")
        demand(len(piece["x"]) > 1 and all(len(row) == 34 for row in piece["x"]), "a coefficient is missing")
    for one, two in pairwise(pieces):
        last, first = ([sum(c) for c in zip(*one["x"])], [sum(c[::2]) - sum(c[1::2]) for c in zip(*two["x"])])
        demand(one["begin"] < one["end"] == two["begin"] and last == first, "x̂ is not continuous")
    demand(begins[0] == pieces[0]["begin"] == cells["piece"][0] == 0, "the proof does not begin at 0")
    demand(cells["piece"][-1] == len(pieces) - 1 and begins[1:] == ends[:-1], "a cell is missing")
    inside = [pieces[i]["begin"] <= t < u <= pieces[i]["end"] for i, t, u in zip(cells["piece"], begins, ends)]
    demand(all(inside), "a cell leaves its piece")


def at_time(proof, network, ticks):
    """The loss, and of each sample an upper bound of the margin, at one time."""
    cell = Cell(proof, next(k for k, end in enumerate(proof["cells"]["end"]) if ticks <= end))
    x, K = [p(cell.s(ticks)) for p in cell.polynomials], network.K
    box = [each + cell.radius * UNIT for each in x]
    neurons, on = network.neurons(box), [relu(z) for z, *_ in network.neurons(x)]
    gates = [1 if z > 0 else 0 if z < 0 else SHARE for z, *_ in neurons]
    loss = sum(((1 + (on[n + K] - on[n]).exp()).log() * p for n, p in enumerate(network.probability)), ZERO)
    slopes = [length((arb_mat([slope]) * network.jacobian(box)).entries()) for _, slope, _ in neurons]
    margins = [on[n] - on[n + K] + cell.radius * (slopes[n] + slopes[n + K]) for n in range(K)]
    return loss + length(network.gradient(box, neurons, gates)) * cell.radius * UNIT, margins


def check_claims(proof, network, tubes, margins):
    """The enclosures of times. The loss falls along the flow, so two times enclose the one at which it passes a level."""
    claims, begins = proof["claims"], proof["cells"]["begin"]
    off, loss, right, wrong = (claims[name] for name in ("switch_off", "loss", "right_from", "wrong_at"))
    if off is not None:
        demand(all(t in begins for t in off), "a time of the switch-off is no beginning of a cell")
        demand(all(z > 0 for tube, t in zip(tubes, begins) if t < off[0] for z in tube), "one may be silent before")
        demand(any(z < 0 for z in tubes[begins.index(off[1])]), "no neuron is silent then")
    if loss is not None:
        level, (before, after) = fmpq(*loss["level"]), (at_time(proof, network, t)[0] for t in loss["time"])
        demand(before > level and after < level, "the loss may pass its level at another time")
    if right is not None:
        later = [m for each, t in zip(margins, begins) if t >= right for m in each]
        demand(right in begins and all(m > 0 for m in later), "a sample may be wrong later")
    demand(wrong is None or any(m < 0 for m in at_time(proof, network, wrong)[1]), "no sample is wrong then")


def check(proof, report):
    """Verify the contents of a proof and return its claims; raises Refused."""
    ctx.prec, ctx.cap = 128, TERMS
    bare = json.dumps({k: v for k, v in proof.items() if k != "checksum"}, sort_keys=True, separators=(",", ":"))
    demand(proof["checksum"] == hashlib.sha256(bare.encode()).hexdigest(), "the checksum is of another file")
    check_form(proof)
    omega, bias = (fmpq(*a) + (fmpq(*b) - fmpq(*a)) * SHARE for a, b in (proof["omega"], proof["bias"]))
    network, radius, start = Network(proof["classes"], bias), arb(proof["first_radius"]), [ZERO] * 34
    for s, place in product((0, 1), (0, 3, 12, 15)):  # W_K = ω [I; 0], W_Q = ω [0; I] in both sectors
        start[2 + 16 * s + place] = omega * arb(2 * (proof["classes"] - 1) if s else 2).sqrt()
    away = length([p(arb(-1)) - x for p, x in zip(Cell(proof, 0).polynomials, start)])
    demand(away <= radius <= 2 * away + 1e-13, "the start is not in the first ball")
    found, n = [], len(proof["cells"]["radius"])
    for k in range(n):
        cell = Cell(proof, k)
        found.append(cell.check(network, radius))
        radius = cell.radius
        report(k + 1, n)
    check_claims(proof, network, *zip(*found))
    return proof["claims"]


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print("accepted:", check(json.load(file), lambda done, cells: None))
