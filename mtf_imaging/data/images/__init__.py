"""An image of any format: its geometry, its stored numbers, and the values that they represent."""
