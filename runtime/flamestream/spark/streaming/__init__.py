"""Workers as long-lived Spark tasks, and the driver that starts them."""
