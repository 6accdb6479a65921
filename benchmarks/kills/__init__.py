"""Accounts from topic to topic while a process that keeps them is killed: ours, and Flink."""
