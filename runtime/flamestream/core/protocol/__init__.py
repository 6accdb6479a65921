"""What the two machines of a job say to each other and keep: messages, the job record, settings; and what a
worker hears and asks for."""
