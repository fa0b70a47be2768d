//! Scripted user agents, for the load tool and the simulator.
