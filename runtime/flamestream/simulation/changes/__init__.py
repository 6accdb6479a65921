"""Jobs of the simulator whose code is another when they are started again."""
