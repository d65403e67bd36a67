"""Words that everything else shares: errors, primitives, tasks, commands, frames, ports."""
