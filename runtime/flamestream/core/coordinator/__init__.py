"""The coordinator: who is there, which attempt counts, recoveries, epochs, endings; every decision is one
write of the job record."""
