"""Jobs for the simulator: graphs with what their fronts read, by what they are to show."""
