"""What a trajectory shows: observables, separability, invariants, stages; each a public function of arrays."""
