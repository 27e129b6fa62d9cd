"""References to secrets, their sources, and parameters that contain them."""
