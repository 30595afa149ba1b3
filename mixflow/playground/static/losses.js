// What a margin costs, its slope with the sign turned, and the least mean when a share q of the labels is wrong.

export const LOSSES = {
  logistic: {
    of: (m) => (m > 0 ? Math.log1p(Math.exp(-m)) : Math.log1p(Math.exp(m)) - m),
    push: (m) => 1 / (1 + Math.exp(m)),
    least: (q) => -q * Math.log(q || 1) - (1 - q) * Math.log(1 - q),
  },
  exponential: { of: (m) => Math.exp(-m), push: (m) => Math.exp(-m), least: (q) => 2 * Math.sqrt(q * (1 - q)) },
};
