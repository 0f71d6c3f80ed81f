"""Every compiled function, and the arrays that they read and write."""
