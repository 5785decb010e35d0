"""WHO DOES THE WORK: many tasks on any `concurrent.futures.Executor`, and what happens when a worker is lost."""
