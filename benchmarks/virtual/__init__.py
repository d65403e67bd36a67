"""The parts of what runs on the virtual clock: `workflows --simulated` and `ablation`."""
