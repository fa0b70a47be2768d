//! A world on a virtual clock: network model, faults, checkers, captures.
