"""HTTP/1.1 as a client: what requests to models need, with a bound on everything."""
