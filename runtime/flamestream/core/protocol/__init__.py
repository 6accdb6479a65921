"""The protocol of a job's two machines, worker and coordinator: messages, the job record and settings; and
the events and actions of a worker."""
