"""What others wrote, as a terminal and a log may show it."""
