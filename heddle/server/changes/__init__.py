"""Changes of the corpus over HTTP: the threads that they run on."""
