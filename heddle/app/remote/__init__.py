"""What a server with models of other servers does differently."""
