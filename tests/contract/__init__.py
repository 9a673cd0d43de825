"""What an API server answers: every test here runs on a real server and on the simulated one."""
