"""Tables on one worker: their rows, and the transactions that change them."""
