"""What is compared while a simulation runs, each rule on its own."""
