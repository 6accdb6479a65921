"""Tables and transactions: several keys change as one."""
