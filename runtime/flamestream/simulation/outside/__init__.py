"""What is real in a real job and false here: network, links, journals, stores, the job record, consumers and
producers."""
