"""What is said of a body: its problems to the client, its unknown fields in the log."""
