"""Pages on networks of finite width."""
