"""What operators decide about a server, and what they need to run one."""
