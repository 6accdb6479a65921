"""Results that would not wait for keys of other workers, modelled."""
