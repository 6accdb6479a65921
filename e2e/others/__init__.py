"""Other programs of a cluster beside jobs of ours: queues, GitOps, and the page by the words of the docs."""
